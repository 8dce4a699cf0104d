package dev.spillway.engine;

/**
 * Counters of an engine.
 *
 * @param store of the store lane
 * @param load of the load lane
 */
public record EngineStats(LaneStats store, LaneStats load) {
  /** Of several engines together. */
  public EngineStats plus(EngineStats other) {
    return new EngineStats(store.plus(other.store), load.plus(other.load));
  }
}
