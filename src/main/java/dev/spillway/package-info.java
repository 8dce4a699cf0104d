/** The face: what a scheduler calls, its configuration and its counters. */
@NullMarked
package dev.spillway;

import org.jspecify.annotations.NullMarked;
