/** One rank's side: plans become submissions, endings become reports. */
@NullMarked
package dev.spillway.worker;

import org.jspecify.annotations.NullMarked;
