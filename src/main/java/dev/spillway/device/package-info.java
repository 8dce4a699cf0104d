/** Where the caller's blocks lie. */
@NullMarked
package dev.spillway.device;

import org.jspecify.annotations.NullMarked;
