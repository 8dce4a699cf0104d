/** The command line: uses the face only. */
@NullMarked
package dev.spillway.cli;

import org.jspecify.annotations.NullMarked;
