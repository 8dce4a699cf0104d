package dev.spillway.cli;

/**
 * One request of a trace.
 *
 * @param millis arrival, from the start of the trace
 * @param inputTokens of the prompt
 * @param blockIds the prompt's blocks in order; an id names a block and all that precede it
 */
@SuppressWarnings("ArrayRecordComponent") // read once, compared never
record Request(long millis, long inputTokens, long[] blockIds) {}
