/** The failure bookkeeping of the scheduler's side: every ending of a block passes once. */
@NullMarked
package dev.spillway.ledger;

import org.jspecify.annotations.NullMarked;
