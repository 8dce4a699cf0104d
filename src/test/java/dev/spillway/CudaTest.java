package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import dev.spillway.device.CudaDevice;
import dev.spillway.device.HostDevice;
import dev.spillway.device.KvTensors;
import dev.spillway.engine.CudaInterop;
import dev.spillway.engine.EngineOptions.EngineKind;
import dev.spillway.engine.OpenRefusedException;
import dev.spillway.testing.SpillwayFixture;
import dev.spillway.testing.TestDevices;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.bytedeco.cuda.cudart.CUevent_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.Pointer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The device, over a CUDA runtime that needs no GPU and fails when it is told to. */
class CudaTest {
  /** Four tensors that are neither neighbours nor at one distance, so a batch is worth it. */
  private static final KvLayout LAYOUT =
      new KvLayout(
          List.of(
              new Group(
                  "attention",
                  16,
                  List.of(
                      Piece.dense(1536), Piece.dense(2112), Piece.dense(4096), Piece.dense(700)))));

  private static final int BLOCKS = 32;

  @TempDir private Path directory;

  private CudaDevice device(String configuration) {
    var library = TestDevices.emulated(directory, configuration);
    return CudaDevice.allocate(LAYOUT, new int[] {BLOCKS}, 0, library);
  }

  private SpillwayFixture open(CudaDevice device, UnaryOperator<SpillwayConfig.Builder> options) {
    return new SpillwayFixture(
        directory, device, builder -> options.apply(builder.capacityBytes(64 * 16384)));
  }

  /** Shows: V55 V56: blocks come back through the device, and it is said how. */
  @ParameterizedTest
  @ValueSource(strings = {"version=13000", "version=12080", "version=11080"})
  void blocksGoRoundThroughTheDevice(String configuration) {
    try (var test = open(device(configuration), UnaryOperator.identity())) {
      assertThat(test.store(1, 0, 5).moved()).isEqualTo(5);
      assertThat(test.load(1, 5, 20).moved()).isEqualTo(5);
      for (int i = 0; i < 5; i++) {
        assertThat(test.holds(20 + i, 1 + i)).isTrue();
      }
      assertThat(test.spillway.stats().mode().device()).startsWith("cuda device 0, runtime 1");
    }
  }

  /** Shows: F6 V185 case51: no runtime, no device or no room is said at open, by name. */
  @Test
  void whatIsMissingIsSaidAtOpen() {
    var none = CudaDevice.probe(TestDevices.emulated(directory, "devices=0"));
    assertThat(none.usable()).isFalse();
    assertThat(none.why()).contains("cudaGetDeviceCount: cudaErrorNoDevice");
    assertThat(CudaDevice.probe("/nowhere/libcudart.so"))
        .asString()
        .contains("none: no CUDA runtime at the given path");
    assertThatThrownBy(() -> device("fail=cudaMalloc:1:2"))
        .hasMessageContaining("bytes on CUDA device 0: cudaMalloc: cudaErrorMemoryAlloc");
    var found = CudaDevice.probe(TestDevices.emulated(directory, "devices=2 version=12080"));
    assertThat(found.devices()).hasSize(2);
    assertThat(found).asString().contains("2 device(s)", "12.8", "batch copies");

    var elsewhere =
        KvTensors.onCuda(9)
            .library(TestDevices.emulated(directory, ""))
            .group("attention", 16, 2, Attention.FULL)
            .blocks("layers.0", 4096, 8192, 4096)
            .build();
    assertThatThrownBy(() -> Spillway.open(SpillwayConfig.in(directory, elsewhere)))
        .isInstanceOfSatisfying(
            OpenRefusedException.class,
            e -> assertThat(e.reason()).isEqualTo(OpenRefusedException.Reason.DEVICE))
        .hasMessageContaining("cudaSetDevice: cudaErrorInvalidDevice");
    assertThat(directory.resolve("rank-0-of-1.blocks")).doesNotExist();
  }

  /**
   * Shows: F18 F19 F38 F53 V12 V18 V52: whatever the device says no to ends that engine with its
   * first cause, nothing is published, close returns, and opening again works.
   */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "fail=cudaMemcpyBatchAsync:3:719",
        "fail=cudaEventRecord:4:400",
        "fail=cudaEventQuery:2:719",
        "fail=cudaLaunchHostFunc:1:719",
        "lose=3"
      })
  void aFailureOfTheDeviceEndsTheEngineAndKeepsTheCause(String configuration) {
    try (var test = open(device(configuration), UnaryOperator.identity())) {
      var result = test.store(1, 0, 16);
      assertThat(result.faults().values())
          .isNotEmpty()
          .allMatch(fault -> fault.outcome() == BlockOutcome.ENGINE_FAILED);
      assertThat(test.hits(1, 16)).isEqualTo(result.moved());
      assertThatThrownBy(() -> test.spillway.store(keys(50, 1), 0, range(0, 1)))
          .isInstanceOf(EngineFailedException.class)
          .hasMessageContaining(
              configuration.startsWith("lose")
                  ? "cudaErrorLaunchFailure"
                  : configuration.substring("fail=".length(), configuration.indexOf(':')));
    } catch (IllegalStateException lost) {
      assertThat(lost).as("memory of a device that is lost").hasMessageContaining("LaunchFailure");
    }
    try (var again = open(device(""), UnaryOperator.identity())) {
      // Others than before: one that was stored before the device failed is found again.
      assertThat(again.store(101, 0, 8).moved()).isEqualTo(8);
      assertThat(again.load(101, 8, 20).moved()).isEqualTo(8);
    }
  }

  /** Shows: F37 F38: one rank's device fails; that rank ends, the other goes on and all is told. */
  @Test
  void oneRanksDeviceFailsAndEveryTransferEnds() {
    try (var well = device("");
        var ill = device("fail=cudaMemcpyBatchAsync:5:719")) {
      var config =
          SpillwayConfig.builder(directory, well).addRank(ill).capacityBytes(64 * 16384).build();
      try (var spillway = Spillway.open(config)) {
        var result = spillway.await(spillway.store(keys(1, 16), 0, range(0, 16)));
        assertThat(result.faults().values())
            .isNotEmpty()
            .allMatch(fault -> fault.outcome() == BlockOutcome.ENGINE_FAILED);
        assertThat(spillway.awaitIdle(Duration.ofSeconds(10))).isTrue();
        assertThat(spillway.stats().heldBlocks()).isZero();
      }
    }
  }

  /** A copy that never ends costs close its bound, and memory is left to the device. */
  @Test
  void closeReturnsThoughACopyNeverEnds() {
    var test = open(device("stall=3"), builder -> builder.closeWait(Duration.ofMillis(300)));
    var result = test.spillway.store(keys(1, 8), 0, range(0, 8));
    while (test.spillway.stats().count(BlockOutcome.STORED) < 2) { // the third is under way
      test.spillway.poll(Duration.ofMillis(10));
    }
    long begun = System.nanoTime();
    test.spillway.close();
    assertThat(System.nanoTime() - begun).isLessThan(10_000_000_000L);
    assertThat(result).isCompleted();
    assertThat(result.join().quiet().toCompletableFuture()).isCompletedExceptionally();
  }

  /** Shows: V49 V50 case54: events and streams hold a copy back, by address or in their types. */
  @ParameterizedTest
  @EnumSource(names = {"URING", "THREADS"})
  void eventsOfTheCallersAreTaken(EngineKind kind) {
    SpillwayFixture.assumeAllowed(kind);
    var unknown = new CUevent_st(new Pointer((Pointer) null)) {};
    assertThatThrownBy(() -> CudaInterop.event(unknown)).hasMessageContaining("address 0");
    assertThat(CudaInterop.stream(new CUstream_st(at(0x4000))))
        .isEqualTo(DeviceEvent.ofCudaStream(0x4000));
    assertThat(CudaInterop.address(at(0x8000))).isEqualTo(0x8000);
    try (var test = open(device(""), builder -> builder.engine(kind))) {
      // A handle that the runtime does not know: it is asked, and what it says is kept.
      var event = CudaInterop.event(new CUevent_st(at(0x4000)));
      var result = test.spillway.await(test.spillway.store(0, keys(1, 1), 0, range(0, 1), event));
      assertThat(result.outcome(0)).isEqualTo(BlockOutcome.ENGINE_FAILED);
      assertThatThrownBy(() -> test.spillway.store(keys(5, 1), 0, range(0, 1)))
          .hasMessageContaining("cudaStreamWaitEvent: cudaErrorInvalidResourceHandle");
    }
    try (var host = HostDevice.allocate(LAYOUT, 4);
        var test =
            Spillway.open(SpillwayConfig.builder(directory, host).nameSpace("test").build())) {
      assertThatThrownBy(
              () -> test.store(0, keys(1, 1), 0, range(0, 1), DeviceEvent.ofCudaStream(0x4000)))
          .hasMessageContaining(
              "a CUDA event or stream at 0x4000 for memory that is not on a CUDA");
    }
  }

  private static Pointer at(long place) {
    return new Pointer() {
      {
        address = place;
      }
    };
  }

  /** Shows: V53: the sizes that models have, in one block, byte for byte. */
  @Test
  void thePiecesOfTrueModelsComeBackByteForByte() {
    var sizes =
        List.of(
            512, 1024, 2048, 2112, 2304, 4096, 4224, 8192, 9216, 10_496, 16_384, 18_432, 65_536,
            137_216, 4095, 4097, 12_287, 12_289);
    var pieces = new ArrayList<Piece>();
    sizes.forEach(bytes -> pieces.add(new Piece(bytes, bytes + 64)));
    var layout = new KvLayout(List.of(new Group("all", 16, pieces)));
    var library = TestDevices.emulated(directory, "seed=4");
    try (var test =
        new SpillwayFixture(
            directory, CudaDevice.allocate(layout, new int[] {4}, 0, library), b -> b)) {
      assertThat(test.store(1, 0, 2).moved()).isEqualTo(2);
      assertThat(test.load(1, 2, 2).moved()).isEqualTo(2);
      assertThat(test.holds(2, 1)).isTrue();
      assertThat(test.holds(3, 2)).isTrue();
    }
  }

  /** Shows: V194: the caller's own tensors, at the addresses that the caller has. */
  @Test
  void theCallersTensorsAreUsedWhereTheyAre() {
    var library = TestDevices.emulated(directory, "");
    var one = KvLayout.ofBlockBytes(1 << 20, 16);
    try (var memory = CudaDevice.allocate(one, new int[] {1}, 0, library)) {
      long base = memory.pieceAddress(0, 0);
      var tensors =
          KvTensors.onCuda(0)
              .library(library)
              .group("attention", 16, 8, Attention.FULL)
              .keysThenValues("layers.0", base, 2 * 8 * 4096, 4096)
              .layersOutermost("others", base + 65536, 3 * 8 * 4096, 3, 4096)
              .build();
      var bytes = ByteBuffer.allocateDirect(1 << 20);
      for (int i = 0; i < bytes.capacity(); i++) {
        bytes.put(i, (byte) (i / 4096));
      }
      memory.write(0, 0, 0, bytes);
      try (var spillway = Spillway.open(SpillwayConfig.in(directory, tensors))) {
        spillway.await(spillway.store(keys(1, 1), 0, range(3, 1)));
        try (var lease = spillway.lookup(keys(1, 1))) {
          assertThat(spillway.await(spillway.load(lease, range(5, 1))).moved()).isEqualTo(1);
        }
      }
      var after = ByteBuffer.allocateDirect(1 << 20);
      memory.read(0, 0, 0, after);
      for (int part = 0; part < 5; part++) {
        assertThat(after.get((part * 8 + 5) * 4096 + 17))
            .as("part " + part)
            .isEqualTo((byte) (part * 8 + 3));
        assertThat(after.get((part * 8 + 6) * 4096)).isEqualTo((byte) (part * 8 + 6));
      }
    }
  }

  /** Shows: V195: a slot is as large as the tensors say, whatever anybody has estimated. */
  @Test
  void v195SlotsAreSizedByTheBytesThatThereAre() {
    for (long bytes : List.of(3_098_112L, 4_255_744L)) {
      var layout = KvLayout.ofBlockBytes(bytes, 16);
      var library = TestDevices.emulated(directory, "");
      try (var test =
          new SpillwayFixture(
              directory.resolve("of-" + bytes),
              CudaDevice.allocate(layout, new int[] {3}, 0, library),
              builder -> builder)) {
        var mode = test.spillway.stats().mode();
        assertThat((long) mode.slotBytes().get(0)).isBetween(bytes, bytes + mode.alignment() - 1);
        assertThat(test.store(1, 0, 1).moved()).isEqualTo(1);
        assertThat(test.load(1, 1, 2).moved()).isEqualTo(1);
        assertThat(test.holds(2, 1)).isTrue();
      }
    }
  }

  /** Shows: V189 F55 case88: children inherit neither memory nor files, and disturb nothing. */
  @Test
  void case88ChildrenInheritNothingAndDisturbNothing() throws Exception {
    try (var test = open(device("seed=2"), UnaryOperator.identity())) {
      test.store(1, 0, 16);
      var children = new ArrayList<Process>();
      for (int round = 0; round < 100; round++) {
        for (int child = 0; child < 2; child++) {
          children.add(new ProcessBuilder("ls", "-l", "/proc/self/fd").start());
        }
        assertThat(test.load(1, 16, 16).moved()).isEqualTo(16);
      }
      for (int i = 0; i < 16; i++) {
        assertThat(test.holds(16 + i, 1 + i)).isTrue();
      }
      for (var child : children) {
        var files = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(files).contains("-> ").doesNotContain(".blocks").doesNotContain("io_uring");
      }
    }
  }

  /** Shows: case51: the path in the system property is used by who probes and who opens alike. */
  @Test
  void thePathInTheSystemPropertyIsUsedEverywhere() {
    System.setProperty("spillway.cuda.library", TestDevices.emulated(directory, "devices=3"));
    try {
      assertThat(CudaDevice.probe().devices()).hasSize(3);
      try (var test =
          new SpillwayFixture(
              directory, CudaDevice.allocate(LAYOUT, new int[] {BLOCKS}, 2), builder -> builder)) {
        assertThat(test.store(1, 0, 4).moved()).isEqualTo(4);
        assertThat(test.load(1, 4, 8).moved()).isEqualTo(4);
        assertThat(test.holds(11, 4)).isTrue();
      }
    } finally {
      System.clearProperty("spillway.cuda.library");
    }
  }
}
