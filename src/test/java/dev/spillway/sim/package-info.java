/** The Java side under a seeded schedule: every ending in every order. */
@NullMarked
package dev.spillway.sim;

import org.jspecify.annotations.NullMarked;
