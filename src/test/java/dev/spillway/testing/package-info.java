/** Doubles and fixtures. */
@NullMarked
package dev.spillway.testing;

import org.jspecify.annotations.NullMarked;
