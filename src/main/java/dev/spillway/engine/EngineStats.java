package dev.spillway.engine;

import java.nio.ByteBuffer;

/**
 * Counters of an engine.
 *
 * @param store of the store lane
 * @param load of the load lane
 */
public record EngineStats(LaneStats store, LaneStats load) {
  /** What {@link #writeTo} takes, bytes. */
  public static final int ENCODED_BYTES = 2 * LaneStats.COUNT * Long.BYTES;

  public static final EngineStats NONE = readFrom(ByteBuffer.allocate(ENCODED_BYTES));

  /** For a scheduler in another process, in the byte order of the buffer. */
  public void writeTo(ByteBuffer target) {
    store.write(target);
    load.write(target);
  }

  /** What {@link #writeTo} has written. */
  public static EngineStats readFrom(ByteBuffer source) {
    var both = source.slice().order(source.order());
    source.position(source.position() + ENCODED_BYTES);
    return new EngineStats(LaneStats.read(both, 0), LaneStats.read(both, 1));
  }

  /** Of several engines together. */
  public EngineStats plus(EngineStats other) {
    return new EngineStats(store.plus(other.store), load.plus(other.load));
  }
}
