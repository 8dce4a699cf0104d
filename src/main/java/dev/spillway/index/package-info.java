/** What is where, on the scheduler's side. Invalidation happens only here. */
@NullMarked
package dev.spillway.index;

import org.jspecify.annotations.NullMarked;
