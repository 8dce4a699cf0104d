/**
 * Values that describe blocks and pass between the rooms: keys, layouts, plans, reports, outcomes.
 */
@NullMarked
package dev.spillway.block;

import org.jspecify.annotations.NullMarked;
