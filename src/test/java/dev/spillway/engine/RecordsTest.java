package dev.spillway.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.engine.OpenRefusedException.Reason;
import org.junit.jupiter.api.Test;

class RecordsTest {
  @Test
  void bothSidesOfTheJniLineHaveTheSameLayout() {
    NativeLibrary.load();
    RecordLayout.verify();
  }

  @Test
  void everyNativeOutcomeHasItsName() {
    assertThat(BlockStatus.ofStore(1)).isEqualTo(BlockOutcome.STORED);
    assertThat(BlockStatus.ofLoad(1)).isEqualTo(BlockOutcome.LOADED);
    assertThat(BlockStatus.ofLoad(2)).isEqualTo(BlockOutcome.READ_ERROR);
    assertThat(BlockStatus.ofStore(3)).isEqualTo(BlockOutcome.WRITE_ERROR);
    assertThat(BlockStatus.ofLoad(4)).isEqualTo(BlockOutcome.SHORT);
    assertThat(BlockStatus.ofLoad(5)).isEqualTo(BlockOutcome.CORRUPT);
    assertThat(BlockStatus.ofLoad(6)).isEqualTo(BlockOutcome.CANCELLED);
    assertThat(BlockStatus.ofLoad(7)).isEqualTo(BlockOutcome.ENGINE_FAILED);
    assertThat(BlockStatus.stage(1)).isEqualTo(BlockStage.QUEUED);
    assertThat(BlockStatus.stage(5)).isEqualTo(BlockStage.COPYING);
  }

  @Test
  void unknownNumbersAreRefused() {
    assertThatThrownBy(() -> BlockStatus.ofLoad(9)).hasMessageContaining("outcome 9");
    assertThatThrownBy(() -> BlockStatus.ofStore(0)).hasMessageContaining("outcome 0");
    assertThatThrownBy(() -> BlockStatus.stage(6)).hasMessageContaining("stage 6");
    assertThatThrownBy(() -> Reason.of(12)).hasMessageContaining("open reason 12");
    assertThat(Reason.of(11)).isEqualTo(Reason.CONFIGURATION);
  }

  @Test
  void aDescriptionWithoutAValueIsRefused() {
    assertThatThrownBy(() -> EngineMode.parse("kind=uring\n"))
        .hasMessage("the native library does not say its kindReason");
  }
}
