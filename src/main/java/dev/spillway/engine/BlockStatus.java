package dev.spillway.engine;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;

/** The one place where the numbers of native endings become names. Unknown ones are refused. */
final class BlockStatus {
  private static final BlockStage[] STAGES = BlockStage.values();

  private BlockStatus() {}

  /** The outcome whose number {@code base/Status.h} gives, for a block that was to be stored. */
  static BlockOutcome ofStore(int code) {
    return code == 1 ? BlockOutcome.STORED : ofFault(code);
  }

  /** The same for a block that was to be loaded. */
  static BlockOutcome ofLoad(int code) {
    return code == 1 ? BlockOutcome.LOADED : ofFault(code);
  }

  private static BlockOutcome ofFault(int code) {
    return switch (code) {
      case 2 -> BlockOutcome.READ_ERROR;
      case 3 -> BlockOutcome.WRITE_ERROR;
      case 4 -> BlockOutcome.SHORT;
      case 5 -> BlockOutcome.CORRUPT;
      case 6 -> BlockOutcome.CANCELLED;
      case 7 -> BlockOutcome.ENGINE_FAILED;
      case 8 -> BlockOutcome.EXPIRED;
      default ->
          throw new IllegalStateException(
              "outcome " + code + " from native code; 1 to 8 are known");
    };
  }

  static BlockStage stage(int code) {
    if (code < 1 || code > STAGES.length) {
      throw new IllegalStateException(
          "stage " + code + " from native code; 1 to " + STAGES.length + " are known");
    }
    return STAGES[code - 1];
  }
}
