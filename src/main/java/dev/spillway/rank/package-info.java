/** Puts together what the ranks of one transfer say. */
@NullMarked
package dev.spillway.rank;

import org.jspecify.annotations.NullMarked;
