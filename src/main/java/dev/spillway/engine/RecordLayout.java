package dev.spillway.engine;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Offsets of the records that cross the JNI line, in bytes, as {@code base/Records.h} has them. The
 * two sides are compared when the library is loaded: JARs that do not belong together are refused.
 */
final class RecordLayout {
  static final int VERSION = 5;

  static final int DOWN_BYTES = 64;
  static final int DOWN_TICKET = 0;
  static final int DOWN_OPERATION = 8;
  static final int DOWN_GROUP = 10;
  static final int DOWN_DEVICE_BLOCK = 12;
  static final int DOWN_SLOT = 16;
  static final int DOWN_PATH = 20;
  static final int DOWN_EVENT_KIND = 22;
  static final int DOWN_CHECKSUM_SEED = 24;
  static final int DOWN_EXPECTED_CHECKSUM = 32;
  static final int DOWN_DEADLINE_NANOS = 40;
  static final int DOWN_EVENT_ADDRESS = 48;
  static final int DOWN_EVENT_VALUE = 56;

  static final int UP_BYTES = 64;
  static final int UP_TICKET = 0;
  static final int UP_KIND = 8;
  static final int UP_OUTCOME = 10;
  static final int UP_ERROR = 12;
  static final int UP_STAGE = 16;
  static final int UP_ATTEMPTS = 18;
  static final int UP_BYTES_DONE = 20;
  static final int UP_CHECKSUM = 24;
  static final int UP_QUEUED_NANOS = 32;
  static final int UP_IO_NANOS = 40;
  static final int UP_VERIFY_NANOS = 48;
  static final int UP_COPY_NANOS = 56;

  static final int OPEN_BYTES = 120;
  static final int OPEN_VERSION = 0;
  static final int OPEN_RANK = 4;
  static final int OPEN_RANK_COUNT = 8;
  static final int OPEN_GROUP_COUNT = 12;
  static final int OPEN_CAPACITY_BYTES = 16;
  static final int OPEN_STAGING_BYTES_MAX = 24;
  static final int OPEN_QUEUE_DEPTH = 32;
  static final int OPEN_ENGINE_KIND = 36;
  static final int OPEN_DIRECT = 40;
  static final int OPEN_ALIGNMENT = 44;
  static final int OPEN_ALLOCATION = 48;
  static final int OPEN_BLOCKS_IN_FLIGHT_MAX = 52;
  static final int OPEN_FINGERPRINT = 56;
  static final int OPEN_LOCK_WAIT_NANOS = 64;
  static final int OPEN_FAULT_SEED = 72;
  static final int OPEN_FAULT_COUNT = 80;
  static final int OPEN_DEVICE_KIND = 84;
  static final int OPEN_DEVICE_ORDINAL = 88;
  static final int OPEN_KEEPING = 92;
  static final int OPEN_FREE_FLOOR_BYTES = 96;
  static final int OPEN_SLOT_RECORD_BYTES = 104;
  static final int OPEN_CIPHER_KEY = 112;

  static final int GROUP_BYTES = 16;
  static final int PIECE_BYTES = 24;
  static final int FAULT_BYTES = 32;

  /** In the order in which {@code recordLayout} of {@code KvEngine.cpp} answers. */
  private static final int[] EXPECTED = {
    DOWN_BYTES,
    DOWN_TICKET,
    DOWN_OPERATION,
    DOWN_GROUP,
    DOWN_DEVICE_BLOCK,
    DOWN_SLOT,
    DOWN_PATH,
    DOWN_EVENT_KIND,
    DOWN_CHECKSUM_SEED,
    DOWN_EXPECTED_CHECKSUM,
    DOWN_DEADLINE_NANOS,
    DOWN_EVENT_ADDRESS,
    DOWN_EVENT_VALUE,
    UP_BYTES,
    UP_TICKET,
    UP_KIND,
    UP_OUTCOME,
    UP_ERROR,
    UP_STAGE,
    UP_ATTEMPTS,
    UP_BYTES_DONE,
    UP_CHECKSUM,
    UP_QUEUED_NANOS,
    UP_IO_NANOS,
    UP_VERIFY_NANOS,
    UP_COPY_NANOS,
    OPEN_BYTES,
    OPEN_VERSION,
    OPEN_RANK,
    OPEN_RANK_COUNT,
    OPEN_GROUP_COUNT,
    OPEN_CAPACITY_BYTES,
    OPEN_STAGING_BYTES_MAX,
    OPEN_QUEUE_DEPTH,
    OPEN_ENGINE_KIND,
    OPEN_DIRECT,
    OPEN_ALIGNMENT,
    OPEN_ALLOCATION,
    OPEN_BLOCKS_IN_FLIGHT_MAX,
    OPEN_FINGERPRINT,
    OPEN_LOCK_WAIT_NANOS,
    OPEN_FAULT_SEED,
    OPEN_FAULT_COUNT,
    OPEN_DEVICE_KIND,
    OPEN_DEVICE_ORDINAL,
    OPEN_KEEPING,
    OPEN_FREE_FLOOR_BYTES,
    OPEN_SLOT_RECORD_BYTES,
    OPEN_CIPHER_KEY,
    GROUP_BYTES,
    PIECE_BYTES,
    FAULT_BYTES,
  };

  private RecordLayout() {}

  /** A zeroed buffer that native code can be given the address of. */
  static ByteBuffer allocate(int bytes) {
    return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
  }

  /** Throws {@link IllegalStateException} where the native library has another layout. */
  static void verify() {
    var answers = allocate(EXPECTED.length * Long.BYTES);
    KvEngineNative.recordLayout(KvEngineNative.addressOf(answers), EXPECTED.length);
    for (int i = 0; i < EXPECTED.length; i++) {
      long found = answers.getLong(i * Long.BYTES);
      if (found != EXPECTED[i]) {
        throw new IllegalStateException(
            "record field %d lies at %d in the native library and at %d here: mixed JARs"
                .formatted(i, found, EXPECTED[i]));
      }
    }
  }
}
