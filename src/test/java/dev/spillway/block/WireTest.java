package dev.spillway.block;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What crosses to another process arrives as it was, and what cannot be is refused. */
class WireTest {
  private static TransferPlan plan() {
    var plan = new TransferPlan();
    plan.begin(77, Operation.LOAD, 2, DeviceEvent.ofStep(5));
    plan.bound(123);
    for (int i = 0; i < 40; i++) {
      plan.add(2 * i, 100 + i, 1000L + i, -5L * i, 7 * i);
    }
    return plan;
  }

  private static ByteBuffer encoded(TransferPlan plan) {
    var buffer = ByteBuffer.allocate(plan.encodedBytes());
    plan.writeTo(buffer);
    assertThat(buffer.hasRemaining()).isFalse();
    return buffer.flip();
  }

  /** Shows: V104: position, slot, generation, seed and device block stay together. */
  @Test
  void v104APlansListsStayIndexParallel() {
    var read = TransferPlan.readFrom(encoded(plan()));
    assertThat(read.transferId()).isEqualTo(77);
    assertThat(read.operation()).isEqualTo(Operation.LOAD);
    assertThat(read.group()).isEqualTo(2);
    assertThat(read.event()).isEqualTo(DeviceEvent.ofStep(5));
    assertThat(read.boundNanos()).isEqualTo(123);
    assertThat(read.size()).isEqualTo(40);
    for (int i = 0; i < 40; i++) {
      assertThat(read.position(i)).isEqualTo(2 * i);
      assertThat(read.slot(i)).isEqualTo(100 + i);
      assertThat(read.generation(i)).isEqualTo(1000L + i);
      assertThat(read.seed(i)).isEqualTo(-5L * i);
      assertThat(read.deviceBlock(i)).isEqualTo(7 * i);
    }
  }

  @Test
  void everyReportArrivesAsItWas() {
    var report = new RankReport();
    report.begin(3);
    for (var outcome : BlockOutcome.values()) {
      for (var stage : BlockStage.values()) {
        report.add(9, report.size(), RankReport.ENDED, outcome, stage, 5, 4096, 1L << 40);
      }
    }
    var buffer = ByteBuffer.allocate(report.encodedBytes());
    report.writeTo(buffer);
    assertThat(buffer.hasRemaining()).isFalse();
    var read = new RankReport();
    read.readFrom(buffer.flip());
    assertThat(read.rank()).isEqualTo(3);
    assertThat(read.size()).isEqualTo(report.size());
    for (int i = 0; i < report.size(); i++) {
      assertThat(read.transferId(i)).isEqualTo(9);
      assertThat(read.position(i)).isEqualTo(i);
      assertThat(read.flags(i)).isEqualTo(RankReport.ENDED);
      assertThat(read.outcome(i)).isEqualTo(report.outcome(i));
      assertThat(read.stage(i)).isEqualTo(report.stage(i));
      assertThat(read.errno(i)).isEqualTo(5);
      assertThat(read.bytesDone(i)).isEqualTo(4096);
      assertThat(read.nanos(i)).isEqualTo(1L << 40);
    }
  }

  @Test
  void aHelloArrivesAsItWas() {
    var hello = new RankHello(1, 4, List.of(100L, 50L), 4096, -3, 17);
    var buffer = ByteBuffer.allocate(256);
    hello.writeTo(buffer);
    assertThat(RankHello.readFrom(buffer.flip())).isEqualTo(hello);
  }

  @Test
  void whatCannotBeIsRefused() {
    var cut = encoded(plan()).limit(200);
    assertThatThrownBy(() -> TransferPlan.readFrom(cut)).hasMessageContaining("40 blocks in");
    var odd = encoded(plan()).putInt(8, 99);
    assertThatThrownBy(() -> TransferPlan.readFrom(odd)).hasMessageContaining("operation 99");
    var negative = ByteBuffer.allocate(8).putInt(0, 1).putInt(4, -1);
    assertThatThrownBy(() -> new RankReport().readFrom(negative))
        .hasMessageContaining("-1 entries");
    assertThatThrownBy(() -> RankHello.readFrom(ByteBuffer.allocate(4)))
        .isInstanceOf(BufferUnderflowException.class);
  }
}
