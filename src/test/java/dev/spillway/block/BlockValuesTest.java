package dev.spillway.block;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.BitSet;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class BlockValuesTest {
  @Test
  void aKeyIsItsSixteenBytes() {
    var bytes = new byte[16];
    bytes[0] = (byte) 0x80;
    bytes[15] = 1;
    assertThat(BlockKey.of(bytes)).isEqualTo(new BlockKey(Long.MIN_VALUE, 1));
    assertThat(BlockKey.of(bytes).toString()).isEqualTo("80000000000000000000000000000001");
    assertThatThrownBy(() -> BlockKey.of(new byte[15]))
        .hasMessage("a key of 15 bytes; 16 would be right");
  }

  @Test
  void keysKeepTheirOrderAndGrow() {
    var keys = new BlockKeys();
    for (int i = 0; i < 100; i++) {
      keys.add(i, -i);
    }
    assertThat(keys.size()).isEqualTo(100);
    assertThat(keys.get(99)).isEqualTo(new BlockKey(99, -99));
    assertThatThrownBy(() -> keys.high(100)).hasMessage("key 100 of 100");
    keys.clear();
    assertThat(keys.isEmpty()).isTrue();
  }

  @Test
  void aLayoutKnowsItsPayloadAndRefusesWhatCannotBe() {
    var layout = KvLayout.ofLayers(4, 8192, 16);
    assertThat(layout.group(0).blockBytes()).isEqualTo(65536);
    assertThatThrownBy(() -> KvLayout.ofBlockBytes(511, 16))
        .hasMessageContaining("a block of 511 bytes; 512 to 67108864 would be right");
    assertThatThrownBy(() -> KvLayout.ofBlockBytes((64L << 20) + 1, 16))
        .hasMessageContaining("67108865 bytes");
    assertThatThrownBy(() -> KvLayout.ofBlockBytes(512, 0))
        .hasMessageContaining("blockTokens is 0");
    assertThatThrownBy(() -> new KvLayout.Piece(8, 7)).hasMessageContaining("stride 7");
    assertThatThrownBy(() -> new KvLayout.Piece(-1, 7)).hasMessageContaining("piece of -1 bytes");
    assertThatThrownBy(() -> KvLayout.Piece.dense(Long.MAX_VALUE))
        .hasMessageContaining("1 to 67108864 would be right");
    assertThatThrownBy(() -> new KvLayout(List.of())).hasMessageContaining("0 groups");
  }

  @Test
  void theFingerprintIsOfThePackedFormAndNotOfStrides() {
    var dense = new KvLayout.Group("a", 16, List.of(KvLayout.Piece.dense(4096)));
    var strided = new KvLayout.Group("b", 16, List.of(new KvLayout.Piece(4096, 8192)));
    var halves =
        new KvLayout.Group(
            "c", 16, List.of(KvLayout.Piece.dense(2048), KvLayout.Piece.dense(2048)));
    long fingerprint = new KvLayout(List.of(dense)).fingerprint();
    assertThat(new KvLayout(List.of(strided)).fingerprint()).isEqualTo(fingerprint);
    assertThat(new KvLayout(List.of(halves)).fingerprint()).isNotEqualTo(fingerprint);
    assertThat(KvLayout.ofBlockBytes(4096, 32).fingerprint()).isNotEqualTo(fingerprint);
  }

  @Test
  void anEventWordMustBeAligned() {
    assertThatThrownBy(() -> new DeviceEvent(0x1004, 1))
        .hasMessage("event address 0x1004 is not a multiple of 8");
  }

  @Test
  void aResultNamesEachBlocksOutcome() {
    var faults = new TreeMap<Integer, BlockFault>();
    faults.put(2, BlockFault.unmoved(BlockOutcome.REJECTED, 4096));
    var present = new BitSet();
    present.set(0);
    var result =
        new TransferResult(
            Operation.STORE, 4, faults, present, 5, CompletableFuture.completedFuture(null));
    assertThat(result.outcome(0)).isEqualTo(BlockOutcome.PRESENT);
    assertThat(result.outcome(1)).isEqualTo(BlockOutcome.STORED);
    assertThat(result.outcome(2)).isEqualTo(BlockOutcome.REJECTED);
    assertThat(result.moved()).isEqualTo(2);
    assertThat(result.wellPrefix()).isEqualTo(2);
    assertThat(result.isWell()).isFalse();
    assertThatThrownBy(() -> result.outcome(4)).hasMessage("block 4 of 4");
  }

  @Test
  void onlyFaultsOfTheMediumInvalidate() {
    for (var outcome : BlockOutcome.values()) {
      boolean medium =
          outcome == BlockOutcome.READ_ERROR
              || outcome == BlockOutcome.SHORT
              || outcome == BlockOutcome.CORRUPT;
      assertThat(outcome.invalidatesEntry()).as("%s", outcome).isEqualTo(medium);
      assertThat(outcome.isFatal()).isEqualTo(outcome == BlockOutcome.ENGINE_FAILED);
    }
  }
}
