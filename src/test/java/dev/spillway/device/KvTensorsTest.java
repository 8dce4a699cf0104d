package dev.spillway.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Piece;
import org.junit.jupiter.api.Test;

class KvTensorsTest {
  /** Shows: V52 V54 V194: each usual shape says where the pieces of a block lie. */
  @Test
  void everyUsualShapeIsPiecesWithABaseAndAStride() {
    var tensors =
        KvTensors.onCuda(2)
            .group("attention", 16, 10, Attention.FULL)
            .keysThenValues("layers.0", 1_000_000, 2 * 10 * 4096, 4096)
            .blocks("layers.1", 2_000_000, 10 * 8192, 8192)
            .layersOutermost("packed", 3_000_000, 3 * 10 * 512, 3, 512)
            .group("latent", 64, 5, Attention.sliding(128))
            .layersInBlocks("mla", 4_000_000, 5 * 4 * 10_496, 4, 10_496)
            .group("state", 272, 3, Attention.RECURRENT)
            .blocks("ssm", 5_000_000, 2 * 3_100_000 + 3_098_112, 3_098_112, 3_100_000)
            .build();
    var layout = tensors.layout();
    assertThat(tensors.cudaDevice()).isEqualTo(2);
    assertThat(layout.group(0).pieces())
        .containsExactly(
            Piece.dense(4096),
            Piece.dense(4096),
            Piece.dense(8192),
            Piece.dense(512),
            Piece.dense(512),
            Piece.dense(512));
    assertThat(tensors.pieceAddress(0, 1)).as("values").isEqualTo(1_000_000 + 10 * 4096);
    assertThat(tensors.pieceAddress(0, 5)).as("layer 2").isEqualTo(3_000_000 + 2 * 10 * 512);
    assertThat(layout.group(1).blockBytes()).isEqualTo(4 * 10_496);
    assertThat(tensors.blockCount(1)).isEqualTo(5);
    assertThat(layout.group(2).pieces()).containsExactly(new Piece(3_098_112, 3_100_000));
    assertThat(layout.group(2).attention()).isEqualTo(Attention.RECURRENT);
  }

  @Test
  void whatDoesNotFitNamesItsTensor() {
    var group = KvTensors.onCuda(0).group("attention", 16, 10, Attention.FULL);
    assertThatThrownBy(() -> group.blocks("layers.7", 0, 10 * 4096, 4096))
        .hasMessage("tensor layers.7 has address 0; its device address would be right");
    assertThatThrownBy(() -> group.blocks("layers.7", 4096, 10 * 4096 - 1, 4096))
        .hasMessage(
            "tensor layers.7 of group attention has 40959 bytes; 10 blocks of 4096 bytes, one every"
                + " 4096, need more");
    assertThatThrownBy(() -> group.keysThenValues("layers.7", 4096, 2 * 10 * 4096 - 2, 4096))
        .hasMessageContaining("20 blocks of 4096 bytes");
    assertThatThrownBy(() -> group.keysThenValues("layers.7", 4096, 2 * 12 * 4096, 4096))
        .as("a tensor of 12 blocks, of which the second part is elsewhere")
        .hasMessageContaining("tensor layers.7 of group attention has 98304 bytes; 2 parts of 10");
    assertThatThrownBy(() -> group.blocks("layers.7", 4096, 1 << 20, 4096, 4000))
        .hasMessageContaining("tensor layers.7: stride 4000 for blocks of 4096 bytes");
    assertThatThrownBy(() -> group.blocks("layers.7", 4096, 1 << 20, 0))
        .hasMessageContaining("tensor layers.7: 0 bytes a block");
    assertThatThrownBy(() -> group.blocks("layers.7", 4096, Long.MAX_VALUE, 8, Long.MAX_VALUE / 4))
        .hasMessageContaining("need more");
    assertThatThrownBy(() -> group.blocks("layers.7", 4097, 1 << 20, 4096))
        .hasMessageContaining("address 0x1001");
    assertThatThrownBy(() -> KvTensors.onCuda(0).blocks("early", 4096, 4096, 512))
        .hasMessageContaining("tensor early before any group");
    assertThatThrownBy(() -> KvTensors.onCuda(-1)).hasMessageContaining("CUDA device -1");
    assertThatThrownBy(() -> KvTensors.onHost().build()).hasMessageContaining("0 groups");
  }
}
