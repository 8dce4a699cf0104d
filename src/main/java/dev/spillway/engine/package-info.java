/** The native engine: the only room that knows JavaCPP. */
@NullMarked
package dev.spillway.engine;

import org.jspecify.annotations.NullMarked;
