package dev.spillway.engine;

/**
 * Counters of an engine.
 *
 * @param store of the store lane
 * @param load of the load lane
 */
public record EngineStats(LaneStats store, LaneStats load) {}
