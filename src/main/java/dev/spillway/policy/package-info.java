/** Decisions that are the user's to replace. Pure: no I/O, no state of Spillway's. */
@NullMarked
package dev.spillway.policy;

import org.jspecify.annotations.NullMarked;
