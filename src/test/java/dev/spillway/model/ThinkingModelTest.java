package dev.spillway.model;

import static org.assertj.core.api.Assertions.assertThat;

import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.BlockOutcome;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.LoadResult;
import dev.spillway.block.PrefixHasher;
import dev.spillway.device.HostDevice;
import dev.spillway.engine.FaultSpec;
import dev.spillway.index.PrefixLease;
import dev.spillway.policy.LoadFailurePolicy;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A model whose KV cache goes through Spillway says the same, token for token, as one that computes
 * everything: with offload, with faults, with preemption, abort and recompute.
 */
@Timeout(240)
class ThinkingModelTest {
  private static final int PROMPTS = 200;
  private static final int ANSWER = 20;
  private static final int ACTIVE = 4;
  private static final int BLOCKS = 160;
  private static final int NULL = Spillway.NULL_BLOCK;

  @TempDir private Path directory;
  private final HostDevice device = HostDevice.allocate(TinyTransformer.LAYOUT, BLOCKS);
  private final TinyTransformer model = new TinyTransformer(device, 42);
  private final BitSet[] free = {new BitSet(), new BitSet()};
  private final SplittableRandom random = new SplittableRandom(5);

  private long loadedTokens;
  private long lostTokens;
  private int interrupted;

  @AfterEach
  void closeDevice() {
    device.close();
  }

  /** Prompts of 20 families, each with a beginning of its own that its members share. */
  private static List<int[]> prompts() {
    var random = new SplittableRandom(11);
    var families = new ArrayList<int[]>();
    for (int i = 0; i < 20; i++) {
      families.add(tokens(random, 40 + random.nextInt(80)));
    }
    var prompts = new ArrayList<int[]>();
    for (int i = 0; i < PROMPTS; i++) {
      var shared = families.get(random.nextInt(families.size()));
      var own = tokens(random, 1 + random.nextInt(40));
      var prompt = Arrays.copyOf(shared, shared.length + own.length);
      System.arraycopy(own, 0, prompt, shared.length, own.length);
      prompts.add(prompt);
    }
    return prompts;
  }

  private static int[] tokens(SplittableRandom random, int count) {
    return random.ints(count, 0, TinyTransformer.VOCABULARY).toArray();
  }

  /** One request: what it knows, where its KV lies, and what it waits for. */
  private final class Running {
    final int number;
    final int promptLength;
    final int[] tokens;
    final int[][] tables = new int[2][];
    int known; // tokens so far
    int computed; // tokens whose KV is on the device
    int storedTokens;
    @Nullable PrefixLease lease;
    @Nullable CompletableFuture<LoadResult> load;
    @Nullable CompletableFuture<Void> fence;

    Running(int number, int[] prompt) {
      this.number = number;
      promptLength = prompt.length;
      tokens = Arrays.copyOf(prompt, prompt.length + ANSWER);
      known = prompt.length;
    }

    boolean isDone() {
      return known == tokens.length;
    }

    int[] answer() {
      return Arrays.copyOfRange(tokens, promptLength, tokens.length);
    }

    void start(@Nullable Spillway spillway) {
      computed = 0;
      storedTokens = 0;
      for (int group = 0; group < 2; group++) {
        int size = TinyTransformer.LAYOUT.group(group).blockTokens();
        tables[group] = new int[(tokens.length + size - 1) / size];
        Arrays.fill(tables[group], NULL);
      }
      if (spillway == null) {
        return;
      }
      lease = spillway.lookup(keys(known), 0, known - 1); // the last token is always computed
      if (lease.isEmpty()) {
        lease.close();
        lease = null;
        return;
      }
      var blocks = new ArrayList<int[]>();
      for (int group = 0; group < 2; group++) {
        var part = lease.group(group);
        var target = new int[part.size()];
        for (int i = 0; i < target.length; i++) {
          target[i] = blockFor(group, part.from() + i);
        }
        blocks.add(target);
      }
      load =
          spillway.load(
              number, lease, blocks, DeviceEvent.NOW, Duration.ZERO, LoadFailurePolicy.recompute());
    }

    private List<BlockKeys> keys(int count) {
      var hasher = new PrefixHasher("", "");
      var prefix = Arrays.copyOf(tokens, count);
      return List.of(
          hasher.hash(prefix, TinyTransformer.FULL_TOKENS),
          hasher.hash(prefix, TinyTransformer.WINDOW_TOKENS));
    }

    private int blockFor(int group, int at) {
      if (tables[group][at] == NULL) {
        int block = free[group].nextSetBit(0);
        assertThat(block).as("device blocks of group %d", group).isNotNegative();
        free[group].clear(block);
        tables[group][at] = block;
      }
      return tables[group][at];
    }

    /** Takes up a load that is over; answers whether there is something to compute. */
    boolean isReady() {
      if (load == null || lease == null) {
        return true;
      }
      if (!load.isDone()) {
        return false;
      }
      var result = load.join();
      assertThat(result.fails()).isFalse();
      computed = result.validTokens();
      storedTokens = computed;
      loadedTokens += computed;
      lostTokens += lease.tokens() - computed;
      lease.close();
      lease = null;
      load = null;
      return true;
    }

    void compute(@Nullable Spillway spillway) {
      for (int i = 0; i < 16 && !isDone(); i++) {
        blockFor(0, computed / TinyTransformer.FULL_TOKENS);
        blockFor(1, computed / TinyTransformer.WINDOW_TOKENS);
        int next = model.step(tokens[computed], computed, tables);
        computed++;
        if (computed == known) {
          tokens[known++] = next;
        }
      }
      if (spillway != null) {
        storeWhole(spillway);
      }
    }

    /** Eager: each block as soon as it is whole. */
    private void storeWhole(Spillway spillway) {
      var keys = keys(computed);
      for (int group = 0; group < 2; group++) {
        int size = TinyTransformer.LAYOUT.group(group).blockTokens();
        int from = storedTokens / size;
        int count = computed / size - from;
        if (count > 0) {
          var blocks = Arrays.copyOfRange(tables[group], from, from + count);
          var stored =
              spillway.store(number, group, keys.get(group), from, blocks, DeviceEvent.NOW);
          assertThat(stored).isNotNull();
        }
      }
      storedTokens = computed / TinyTransformer.FULL_TOKENS * TinyTransformer.FULL_TOKENS;
    }

    void giveBackBlocks() {
      for (int group = 0; group < 2; group++) {
        for (int block : tables[group]) {
          if (block != NULL) {
            model.scribble(group, block);
            free[group].set(block);
          }
        }
      }
      if (lease != null) {
        lease.close();
        lease = null;
        load = null;
      }
    }
  }

  /** Serves all prompts, four at a time; interrupts a share of them at any moment. */
  private List<int[]> serve(@Nullable Spillway spillway, double interrupts) {
    Arrays.stream(free).forEach(blocks -> blocks.set(0, BLOCKS));
    for (int block = 0; block < BLOCKS; block++) {
      model.scribble(0, block);
      model.scribble(1, block);
    }
    var answers = new int[PROMPTS][];
    var waiting = new ArrayDeque<Running>();
    for (var prompt : prompts()) {
      waiting.add(new Running(waiting.size() + 1, prompt));
    }
    var active = new ArrayList<Running>();
    while (!waiting.isEmpty() || !active.isEmpty()) {
      while (active.size() < ACTIVE && !waiting.isEmpty()) {
        var next = waiting.remove();
        next.start(spillway);
        active.add(next);
      }
      if (spillway != null) {
        spillway.poll(Duration.ofMillis(1));
      }
      for (var request : List.copyOf(active)) {
        if (advance(request, spillway, interrupts)) {
          active.remove(request);
          request.giveBackBlocks();
          if (request.isDone()) {
            answers[request.number - 1] = request.answer();
          } else {
            waiting.addFirst(request);
          }
        }
      }
    }
    return List.of(answers);
  }

  /** Answers whether the request has left the device. */
  private boolean advance(Running request, @Nullable Spillway spillway, double interrupts) {
    if (spillway == null) {
      request.compute(null);
      return request.isDone();
    }
    if (request.fence != null) {
      boolean left = request.fence.isDone();
      if (left) {
        request.fence = null;
      }
      return left;
    }
    if (random.nextDouble() < interrupts) {
      interrupted++;
      boolean abort = random.nextBoolean();
      request.fence = abort ? spillway.abort(request.number) : spillway.drain(request.number);
      return false;
    }
    if (request.isReady()) {
      request.compute(spillway);
      if (request.isDone()) {
        request.fence = spillway.drain(request.number);
      }
    }
    return false;
  }

  private Spillway open(FaultSpec faults) {
    return Spillway.open(
        SpillwayConfig.builder(directory, device)
            .capacityBytes(2000 * 8192L)
            .stagingBytes(4 << 20)
            .faults(faults)
            .probeInterval(Duration.ofMillis(20))
            .build());
  }

  private static List<String> words(List<int[]> answers) {
    return answers.stream().map(Arrays::toString).collect(Collectors.toList());
  }

  /**
   * Shows: F41 F48 F51 V65 V66 V73 V74 V75 V133 V196, case68, case102: all bytes right, so all
   * tokens right.
   */
  @Test
  void itSaysTheSameWithOffloadWithFaultsWithPreemptionAndWithout() {
    var alone = words(serve(null, 0));
    assertThat(alone.stream().distinct().count()).as("it does think").isGreaterThan(100);
    try (var spillway = open(FaultSpec.NONE)) {
      assertThat(words(serve(spillway, 0))).isEqualTo(alone);
      assertThat(loadedTokens).isGreaterThan(PROMPTS * 30L);
      assertThat(lostTokens).isZero();
      spillway.awaitIdle(Duration.ofSeconds(10));
      assertThat(spillway.stats().heldBlocks()).isZero();
    }
    loadedTokens = 0;
    var faults =
        FaultSpec.parse(
            "read-eio=2%,short-read=3%,zero-read=1%,write-eio=2%,corrupt=2%,eagain=2%,reorder=10%",
            17);
    try (var spillway = open(faults)) {
      assertThat(words(serve(spillway, 0.1))).isEqualTo(alone);
      assertThat(loadedTokens).isGreaterThan(PROMPTS * 10L);
      assertThat(lostTokens).as("tokens that faults took").isPositive();
      assertThat(interrupted).isGreaterThan(PROMPTS / 4);
      spillway.awaitIdle(Duration.ofSeconds(10));
      var stats = spillway.stats();
      assertThat(stats.heldBlocks()).isZero();
      assertThat(stats.count(BlockOutcome.CORRUPT)).isPositive();
      assertThat(stats.count(BlockOutcome.READ_ERROR)).isPositive();
      assertThat(stats.engine().load().faults().balances()).isTrue();
      assertThat(stats.engine().store().faults().balances()).isTrue();
    }
  }

  /** The test can see: one foreign block, and it says something else. */
  @Test
  void aForeignBlockChangesWhatItSays() {
    Arrays.stream(free).forEach(blocks -> blocks.set(0, BLOCKS));
    int changed = 0;
    for (int i = 0; i < 20; i++) {
      var right = new Running(1, prompts().get(i));
      right.start(null);
      var wrong = new Running(2, prompts().get(i));
      wrong.start(null);
      while (!right.isDone()) {
        right.compute(null);
      }
      while (!wrong.isDone()) {
        wrong.compute(null);
        if (wrong.computed == 32) {
          for (int piece = 0; piece < 4; piece++) { // its second block becomes the first
            var foreign = device.piece(0, piece, wrong.tables[0][0]);
            device.piece(0, piece, wrong.tables[0][1]).put(0, foreign, 0, foreign.capacity());
          }
        }
      }
      changed += Arrays.equals(right.answer(), wrong.answer()) ? 0 : 1;
      right.giveBackBlocks();
      wrong.giveBackBlocks();
    }
    assertThat(changed).isGreaterThan(10);
  }
}
