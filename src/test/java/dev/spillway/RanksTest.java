package dev.spillway;

import static dev.spillway.testing.SpillwayFixture.keys;
import static dev.spillway.testing.SpillwayFixture.range;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.KvLayout;
import dev.spillway.block.TransferResult;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.FaultSpec;
import dev.spillway.examples.TwoProcesses;
import dev.spillway.testing.Commands;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Two ranks: one in this process, the other in a JVM of its own, over a Unix domain socket. */
@Timeout(30)
@SuppressWarnings("try") // some tests close by hand, and each needs the other rank to be there
class RanksTest {
  private static final KvLayout LAYOUT = KvLayout.ofBlockBytes(16384, 16);
  private static final int BLOCKS = 16;

  @TempDir private Path directory;
  private ServerSocketChannel server;
  private final HostDevice device = HostDevice.allocate(LAYOUT, BLOCKS);

  @BeforeEach
  void listen() throws IOException {
    server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    server.bind(UnixDomainSocketAddress.of(directory.resolve("ranks")));
  }

  @AfterEach
  void stopListening() throws IOException {
    server.close();
    device.close();
  }

  private static SpillwayConfig.Builder config(Path directory, HostDevice device) {
    return SpillwayConfig.builder(directory, device).capacityBytes(64 * 16384);
  }

  private Spillway open(Duration lease) throws IOException {
    return Spillway.open(
        config(directory, device)
            .addRank(server.accept())
            .rankLease(lease)
            .closeWait(Duration.ofSeconds(2))
            .build());
  }

  /** The other JVM: a rank that does what its standard input says to its device memory. */
  static final class Child {
    public static void main(String[] args) throws Exception {
      var directory = Path.of(args[0]);
      try (var device = HostDevice.allocate(LAYOUT, BLOCKS);
          var worker =
              RankWorker.open(
                  config(directory, device)
                      .faults(args[1].isEmpty() ? FaultSpec.NONE : FaultSpec.parse(args[1], 7))
                      .build(),
                  1,
                  2)) {
        var console = new Thread(() -> obey(worker, device));
        console.setDaemon(true);
        console.start();
        worker.serve(SocketChannel.open(UnixDomainSocketAddress.of(directory.resolve("ranks"))));
        System.out.println("left");
      }
    }

    private static void obey(RankWorker worker, HostDevice device) {
      try (var input =
          new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
        for (var line = input.readLine(); line != null; line = input.readLine()) {
          var words = line.split(" ", 2);
          int number = Integer.parseInt(words[1]);
          switch (words[0]) {
            case "fill" -> fill(device, number);
            case "step" -> worker.stepDone(number);
            case "sum" -> System.out.println("sum " + device.piece(0, 0, number).getLong(8000));
            default -> throw new IllegalArgumentException(line);
          }
        }
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }
  }

  /** Each rank's share of a block differs. */
  private static void fill(HostDevice device, int number) {
    for (int block = 0; block < BLOCKS; block++) {
      device.piece(0, 0, block).putLong(8000, 1000L * number + block);
    }
  }

  private final class OtherRank implements AutoCloseable {
    final Process process;
    final BufferedReader output;
    final BufferedWriter input;

    OtherRank(String faults) throws IOException {
      process =
          new ProcessBuilder(
                  Commands.java(List.of("-ea"), Child.class, directory.toString(), faults))
              .redirectErrorStream(true)
              .start();
      output = process.inputReader(StandardCharsets.UTF_8);
      input = process.outputWriter(StandardCharsets.UTF_8);
    }

    void say(String line) throws IOException {
      input.write(line + "\n");
      input.flush();
    }

    String answer(String start) throws IOException {
      var line = output.readLine();
      while (line != null && !line.startsWith(start)) {
        line = output.readLine();
      }
      return String.valueOf(line);
    }

    void signal(String name) {
      Commands.run("kill", "-" + name, "" + process.pid());
    }

    /** Stops every thread of it: on a busy machine that takes a moment. */
    void stop() throws IOException, InterruptedException {
      signal("STOP");
      while (!isStopped()) {
        Thread.sleep(1);
      }
    }

    private boolean isStopped() throws IOException {
      try (var tasks = Files.list(Path.of("/proc", "" + process.pid(), "task"))) {
        for (var task : tasks.toList()) {
          var stat = Files.readString(task.resolve("stat"));
          if (stat.charAt(stat.lastIndexOf(')') + 2) != 'T') {
            return false;
          }
        }
      }
      return true;
    }

    @Override
    public void close() {
      signal("CONT");
      assertThat(process.onExit().orTimeout(10, TimeUnit.SECONDS))
          .succeedsWithin(10, TimeUnit.SECONDS);
    }
  }

  private static TransferResult store(Spillway spillway, long key, int count) {
    return spillway.await(spillway.store(keys(key, count), 0, range(0, count)));
  }

  /** Shows: V33 V109: found when both have written it, and each gets its own bytes back. */
  @Test
  void eachRankGetsItsOwnShareBack() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(5))) {
      other.say("fill 2");
      other.say("sum 0");
      assertThat(other.answer("sum")).isEqualTo("sum 2000");
      fill(device, 1);
      assertThat(store(spillway, 1, 8).moved()).isEqualTo(8);
      try (var lease = spillway.lookup(keys(1, 8))) {
        assertThat(lease.size()).isEqualTo(8);
        assertThat(spillway.await(spillway.load(lease, range(8, 8))).moved()).isEqualTo(8);
      }
      assertThat(device.piece(0, 0, 11).getLong(8000)).isEqualTo(1003);
      other.say("sum 11");
      assertThat(other.answer("sum")).isEqualTo("sum 2003");
      assertThat(spillway.stats().unknownEndings() + spillway.stats().doubleEndings()).isZero();
      spillway.close();
      assertThat(spillway.stats().engine().store().ended()).as("of both ranks").isEqualTo(16);
      assertThat(other.answer("left")).isEqualTo("left");
    }
  }

  /** Shows: F37 V33, case36: one rank's failure is a failure on all. */
  @Test
  void aStoreThatOneRankFailsIsFoundOnNone() throws Exception {
    try (var other = new OtherRank("write-eio=50%");
        var spillway = open(Duration.ofSeconds(5))) {
      var result = store(spillway, 1, 12);
      assertThat(result.faults()).isNotEmpty();
      assertThat(result.faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.WRITE_ERROR);
      for (int i = 0; i < 12; i++) {
        try (var lease = spillway.lookup(keys(1 + i, 1))) {
          assertThat(lease.size()).as("block %d", i).isEqualTo(result.outcome(i).isWell() ? 1 : 0);
        }
      }
      assertThat(spillway.stats().heldBlocks()).isZero();
    }
  }

  /** Shows: F43 F53, case55: a rank that dies is noticed, and all it owed ends. */
  @Test
  void aRankThatIsKilledEndsWhatItOwed() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(30))) {
      store(spillway, 1, 4);
      other.stop(); // it has neither answered nor gone
      var stored = spillway.store(keys(11, 4), 0, range(4, 4));
      spillway.poll(Duration.ofMillis(200));
      assertThat(stored).isNotDone();
      other.signal("KILL");
      var result = spillway.await(stored);
      assertThat(result.faults()).hasSize(4);
      assertThat(result.faults().values())
          .allMatch(fault -> fault.outcome() == BlockOutcome.ENGINE_FAILED);
      assertThat(result.quiet().toCompletableFuture()).as("nobody has said so").isNotDone();
      assertThatThrownBy(() -> store(spillway, 21, 1))
          .isInstanceOf(EngineFailedException.class)
          .hasMessageContaining("its channel ended");
      spillway.close();
      assertThat(result.quiet().toCompletableFuture()).isCompletedExceptionally();
      assertThat(spillway.stats().heldBlocks()).isZero();
    }
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(5))) {
      assertThat(store(spillway, 31, 4).moved()).as("opened again").isEqualTo(4);
      assertThat(other.process.isAlive()).isTrue();
    }
  }

  /** Nobody overwrites what lies on its disk any more; who asked for it hears so. */
  @Test
  void whatIsToBeForgottenOnARankThatDiesIsAnsweredAsLeft() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(30))) {
      store(spillway, 1, 4);
      try (var lease = spillway.lookup(keys(1, 4))) {
        assertThat(lease.size()).isEqualTo(4);
        var held = spillway.forget(0, keys(1, 4)); // the lease keeps it from being overwritten
        spillway.poll();
        assertThat(held).isNotDone();
        other.signal("KILL");
        for (int i = 0; i < 10_000 && !held.isDone(); i++) {
          spillway.poll(); // nothing is in flight, so a bound would not be waited for
          Thread.sleep(1);
        }
        assertThat(held).isCompletedWithValue(4);
      }
      assertThat(spillway.forget(0, keys(1, 4))).as("no longer known").isCompleted();
    }
  }

  /** Shows: F27 F50, case57: after a lapsed lease outcomes are dropped, and quiet is taken in. */
  @Test
  void aRankThatIsSilentLosesItsLeaseAndIsStillHeardOnQuiet() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofMillis(1500))) {
      store(spillway, 1, 4);
      other.stop();
      var stored = spillway.store(7, 0, keys(11, 4), 0, range(4, 4), DeviceEvent.NOW);
      var result = spillway.await(stored);
      assertThat(result.faults()).hasSize(4);
      var quiet = result.quiet().toCompletableFuture();
      var fence = spillway.abort(7);
      assertThat(quiet).isNotDone();
      assertThat(fence).isNotDone();
      assertThat(spillway.stats().heldBlocks()).as("its slots wait for it").isEqualTo(4);
      other.signal("CONT");
      for (int i = 0; i < 200 && !quiet.isDone(); i++) {
        spillway.poll(Duration.ofMillis(20));
      }
      assertThat(quiet).isCompleted();
      assertThat(fence).isCompleted();
      assertThat(spillway.stats().heldBlocks()).isZero();
      assertThat(spillway.stats().unknownEndings() + spillway.stats().doubleEndings()).isZero();
    }
  }

  /** Shows: case54: a copy waits for the step of the computation on each rank. */
  @Test
  void aStoreWaitsForItsStepOnBothRanks() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(5))) {
      var stored = spillway.store(0, keys(1, 4), 0, range(0, 4), DeviceEvent.ofStep(3));
      spillway.stepDone(3);
      spillway.poll(Duration.ofMillis(150));
      assertThat(stored).isNotDone();
      other.say("step 2");
      spillway.poll(Duration.ofMillis(150));
      assertThat(stored).isNotDone();
      other.say("step 3");
      assertThat(spillway.await(stored).moved()).isEqualTo(4);
    }
  }

  /** Shows: V73 V74: preemption, abort and reset reach a rank elsewhere. */
  @Test
  void abortDrainAndResetReachTheOtherRank() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(5))) {
      store(spillway, 1, 4);
      var waiting = spillway.store(9, 0, keys(11, 4), 0, range(4, 4), DeviceEvent.ofStep(1));
      var quiet = spillway.drain(9);
      awaitAll(spillway, quiet);
      assertThat(spillway.await(waiting).faults().values())
          .hasSize(4)
          .allMatch(fault -> fault.outcome() == BlockOutcome.CANCELLED);
      try (var lease = spillway.lookup(keys(1, 4))) {
        var load = spillway.load(lease, range(8, 4), DeviceEvent.ofStep(1));
        awaitAll(spillway, spillway.reset());
        assertThat(spillway.await(load).faults()).hasSize(4);
      }
      try (var lease = spillway.lookup(keys(1, 4))) {
        assertThat(lease.size()).isZero();
      }
      assertThat(store(spillway, 1, 4).moved()).isEqualTo(4);
      assertThat(other.process.isAlive()).isTrue();
    }
  }

  private static void awaitAll(Spillway spillway, CompletableFuture<Void> quiet) {
    while (!quiet.isDone()) {
      spillway.poll(Duration.ofMillis(50));
    }
  }

  /** Shows: V116: who does not belong here is refused, by what differs. */
  @Test
  void aRankThatDoesNotBelongHereIsRefused() throws Exception {
    var wide = KvLayout.ofBlockBytes(32768, 16);
    var socket = UnixDomainSocketAddress.of(directory.resolve("ranks"));
    try (var memory = HostDevice.allocate(wide, 4);
        var worker = RankWorker.open(config(directory, memory).build(), 1, 2)) {
      var served = serve(worker, SocketChannel.open(socket));
      assertThatThrownBy(() -> open(Duration.ofSeconds(5)))
          .hasMessageContaining("rank 1 has layout");
      assertThat(served.get(10, TimeUnit.SECONDS)).isFalse();
    }
    Files.delete(directory.resolve("rank-1-of-2.blocks"));
    try (var memory = HostDevice.allocate(LAYOUT, 4);
        var worker = RankWorker.open(config(directory, memory).build(), 2, 3)) {
      var served = serve(worker, SocketChannel.open(socket));
      assertThatThrownBy(() -> open(Duration.ofSeconds(5)))
          .hasMessageContaining("rank 2 of 3 where rank 1 of 2 would be right");
      assertThat(served.get(10, TimeUnit.SECONDS)).isFalse();
    }
    try (var silent = SocketChannel.open(socket)) {
      assertThat(silent.isConnected()).isTrue();
      assertThatThrownBy(
              () ->
                  Spillway.open(
                      config(directory, device)
                          .addRank(server.accept())
                          .lockWait(Duration.ofMillis(100))
                          .build()))
          .hasMessageContaining("has not said hello within");
    }
    try (var memory = HostDevice.allocate(LAYOUT, 4)) {
      assertThatThrownBy(() -> RankWorker.open(config(directory, memory).build(), 2, 2))
          .hasMessageContaining("rank 2 of 2; 0 to 1 would be right");
    }
  }

  /** Shows: F54 V29: a goodbye right behind a store finds everything quiet on both sides. */
  @Test
  void closeRightAfterAStoreLeavesNothingInDoubt() throws Exception {
    for (int round = 0; round < 5; round++) {
      try (var memory = HostDevice.allocate(LAYOUT, BLOCKS);
          var worker = RankWorker.open(config(directory, memory).build(), 1, 2)) {
        var served =
            serve(
                worker, SocketChannel.open(UnixDomainSocketAddress.of(directory.resolve("ranks"))));
        var spillway = open(Duration.ofSeconds(5));
        var stored = spillway.store(0, keys(1, 8), 0, range(0, 8), DeviceEvent.NOW);
        spillway.close();
        assertThat(served.get(10, TimeUnit.SECONDS)).as("left with a word").isTrue();
        assertThat(stored.join().quiet().toCompletableFuture()).isCompleted();
        assertThat(spillway.stats().heldBlocks()).isZero();
        assertThat(spillway.stats().unknownEndings() + spillway.stats().doubleEndings()).isZero();
      }
    }
  }

  /** An address of this process means nothing in another. */
  @Test
  void anEventOfThisProcessIsRefusedBeforeAnythingMoves() throws Exception {
    try (var other = new OtherRank("");
        var spillway = open(Duration.ofSeconds(5))) {
      assertThatThrownBy(
              () -> spillway.store(0, keys(1, 1), 0, range(0, 1), new DeviceEvent(4096, 1)))
          .hasMessageContaining("DeviceEvent.ofStep would be right");
      assertThat(store(spillway, 1, 1).moved()).isEqualTo(1);
      assertThat(other.process.isAlive()).isTrue();
    }
  }

  /** Shows: F43: nothing hangs on either side. */
  @Test
  void aRankWhoseSchedulerDiesLeaves() throws Exception {
    try (var memory = HostDevice.allocate(LAYOUT, BLOCKS);
        var worker = RankWorker.open(config(directory, memory).build(), 1, 2)) {
      var ours = SocketChannel.open(UnixDomainSocketAddress.of(directory.resolve("ranks")));
      var served = serve(worker, ours);
      var theirs = server.accept();
      var spillway = Spillway.open(config(directory, device).addRank(theirs).build());
      var stored = spillway.store(0, keys(1, 4), 0, range(0, 4), DeviceEvent.ofStep(1));
      spillway.poll(Duration.ofMillis(300)); // until it has arrived
      theirs.close();
      assertThat(served.get(10, TimeUnit.SECONDS)).as("left with a word").isFalse();
      assertThat(worker.stats().store().ended()).as("all that it had").isEqualTo(4);
      spillway.close();
      assertThat(stored.join().faults()).hasSize(4);
      assertThat(spillway.stats().heldBlocks()).isZero();
    }
  }

  /** Answers whether the scheduler left with a word. */
  private static CompletableFuture<Boolean> serve(RankWorker worker, SocketChannel channel) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            worker.serve(channel);
            return true;
          } catch (IOException e) {
            return false;
          }
        });
  }

  @Test
  void theExampleRuns() throws Exception {
    var place = Files.createDirectory(directory.resolve("example"));
    var scheduler =
        new ProcessBuilder(
                Commands.java(List.of(), TwoProcesses.class, "scheduler", place.toString()))
            .redirectErrorStream(true)
            .start();
    while (!Files.exists(place.resolve("ranks"))) {
      assertThat(scheduler.isAlive()).isTrue();
      TimeUnit.MILLISECONDS.sleep(20);
    }
    var rank = Commands.run(Commands.java(List.of(), TwoProcesses.class, "rank", place.toString()));
    var text = new String(scheduler.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(text).contains("STORE of 4 blocks: 4 moved").contains("LOAD of 4 blocks: 4 moved");
    assertThat(rank.code()).as(rank.text()).isZero();
    assertThat(scheduler.waitFor()).isZero();
  }

  /** Shows: V220: what two ranks have stored is of no use to one, and never in its way. */
  @Test
  void v220AnotherCountOfRanksFindsNothingAndBothAreRight() {
    try (var other = HostDevice.allocate(LAYOUT, BLOCKS);
        var alone = HostDevice.allocate(LAYOUT, BLOCKS);
        var two = Spillway.open(config(directory, device).addRank(other).build());
        var one = Spillway.open(config(directory, alone).build())) {
      fill(device, 1);
      fill(other, 2);
      fill(alone, 3);
      two.await(two.store(keys(1, 4), 0, range(0, 4)));
      try (var lease = one.lookup(keys(1, 4))) {
        assertThat(lease.isEmpty()).isTrue();
      }
      one.await(one.store(keys(1, 4), 0, range(0, 4)));
      for (var each : List.of(one, two)) {
        try (var lease = each.lookup(keys(1, 4))) {
          assertThat(each.await(each.load(lease, range(8, 4))).moved()).isEqualTo(4);
        }
      }
      assertThat(device.piece(0, 0, 11).getLong(8000)).isEqualTo(1003);
      assertThat(other.piece(0, 0, 11).getLong(8000)).isEqualTo(2003);
      assertThat(alone.piece(0, 0, 11).getLong(8000)).isEqualTo(3003);
    }
  }

  /** A worker is closed by another thread, as a shutdown hook does. */
  @Test
  void aWorkerThatIsClosedElsewhereEndsServing() throws Exception {
    try (var memory = HostDevice.allocate(LAYOUT, BLOCKS)) {
      var worker = RankWorker.open(config(directory, memory).build(), 1, 2);
      var ours = SocketChannel.open(UnixDomainSocketAddress.of(directory.resolve("ranks")));
      var served = serve(worker, ours);
      var spillway = Spillway.open(config(directory, device).addRank(server.accept()).build());
      store(spillway, 1, 4);
      worker.close();
      assertThat(served.get(10, TimeUnit.SECONDS)).as("with a word").isFalse();
      worker.close();
      assertThatThrownBy(() -> worker.serve(ours)).hasMessage("this worker is closed");
      var result = spillway.await(spillway.store(keys(21, 2), 0, range(8, 2)));
      assertThat(result.faults()).hasSize(2);
      spillway.close();
    }
  }

  /** One that waits for its scheduler's first word is closed as well. */
  @Test
  void aWorkerThatHearsNothingCanBeClosed() throws Exception {
    try (var memory = HostDevice.allocate(LAYOUT, BLOCKS)) {
      var worker = RankWorker.open(config(directory, memory).build(), 1, 2);
      var ours = SocketChannel.open(UnixDomainSocketAddress.of(directory.resolve("ranks")));
      var served = serve(worker, ours);
      var theirs = server.accept();
      TimeUnit.MILLISECONDS.sleep(50); // it may or may not have said hello
      worker.close();
      assertThat(served.get(10, TimeUnit.SECONDS)).isFalse();
      theirs.close();
    }
  }
}
