package dev.spillway.cli;

import dev.spillway.Spillway;
import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.LoadResult;
import dev.spillway.block.TransferResult;
import dev.spillway.policy.LoadFailurePolicy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * One request on its way through the replay's scheduler: what the device has is pinned, what
 * Spillway has is loaded and compared, the rest is computed, and all of it is stored. On its way it
 * may be aborted or preempted; its blocks go back to the pool only when nothing can touch them.
 *
 * <pre>
 * WAITING → LOADING → STORING → DONE
 *           LOADING | STORING → LEAVING → DONE | WAITING (preempted: from the start)
 * </pre>
 */
final class ReplayRequest {
  private enum State {
    WAITING,
    LOADING,
    STORING,
    LEAVING,
    DONE
  }

  /**
   * What all requests of a replay share.
   *
   * @param blockTokens tokens a block as the trace has it; the layout has its own
   * @param chance decides who is aborted and preempted
   */
  record Context(
      Spillway spillway,
      DevicePool pool,
      BlockPattern pattern,
      GroupTables tables,
      int blockTokens,
      LoadFailurePolicy policy,
      double preemptRate,
      double abortRate,
      Random chance) {}

  private final Context context;
  private final ReplayTally tally;
  private final Request request;
  private final long id;
  private final List<BlockKey> keys;
  private final List<BlockKeys> chains;
  private final int[] blocks;
  private CompletableFuture<LoadResult> load = new CompletableFuture<>();
  private final List<CompletableFuture<TransferResult>> stores = new ArrayList<>();
  private CompletionStage<Void> quiet = CompletableFuture.completedFuture(null);
  private State state = State.WAITING;
  private boolean again;
  private boolean published;
  private int deviceHits;
  private int leased;

  /**
   * @param id not 0
   */
  ReplayRequest(Context context, ReplayTally tally, Request request, long id, List<BlockKey> keys) {
    this.context = context;
    this.tally = tally;
    this.request = request;
    this.id = id;
    this.keys = keys;
    chains = context.tables().chains(keys);
    blocks = new int[keys.size()];
  }

  /**
   * Pins, looks up and begins to load. False, and nothing done, where the pool has no room or a
   * running request is about to bring the next block to the device.
   */
  boolean start() {
    var pool = context.pool();
    var tables = context.tables();
    int pinned = pool.pinPrefix(keys, blocks);
    deviceHits = tables.usable(blocks, pinned);
    if (deviceHits < pinned) {
      pool.unpin(blocks, pinned);
      pool.pinPrefix(keys.subList(0, deviceHits), blocks);
    }
    boolean promised = deviceHits < keys.size() && pool.isPromised(keys.get(deviceHits));
    if (promised || !pool.take(blocks, deviceHits)) {
      pool.unpin(blocks, deviceHits);
      return false;
    }
    pool.promise(keys, deviceHits);
    published = false;
    tables.clear(blocks, deviceHits);
    int tokens = tables.baseTokens();
    try (var lease = context.spillway().lookup(chains, deviceHits * tokens, keys.size() * tokens)) {
      leased = lease.tokens() / tokens - deviceHits;
      var targets = new ArrayList<int[]>();
      for (int group = 0; group < tables.groups(); group++) {
        var part = lease.group(group);
        targets.add(tables.targets(group, blocks, part.from(), part.size()));
      }
      load =
          context
              .spillway()
              .load(id, lease, targets, DeviceEvent.NOW, Duration.ZERO, context.policy());
    }
    state = State.LOADING;
    leaveByChance();
    return true;
  }

  /** Takes the next step where it can be taken; answers whether it was. */
  boolean doWork() {
    return switch (state) {
      case WAITING -> start();
      case LOADING -> load.isDone() && onLoaded(load.join());
      case STORING -> areStored() && onStored();
      case LEAVING -> areStored() && load.isDone() && isQuiet() && onLeft();
      case DONE -> false;
    };
  }

  long id() {
    return id;
  }

  boolean isDone() {
    return state == State.DONE;
  }

  private boolean areStored() {
    return stores.stream().allMatch(CompletableFuture::isDone);
  }

  private boolean isQuiet() {
    return quiet.toCompletableFuture().isDone();
  }

  private boolean onLoaded(LoadResult result) {
    if (!result.isWell()) {
      tally.affectedRequests++;
    }
    if (leased > 0) {
      result.groups().forEach(group -> tally.loaded(group.nanos()));
    }
    verify(result);
    if (result.fails()) {
      tally.failedRequests++;
      quiet = result.quiet();
      state = State.LEAVING;
      return true;
    }
    int valid = result.validTokens() / context.tables().baseTokens() - deviceHits;
    tally.lostTokens += (long) (leased - valid) * context.blockTokens();
    compute(valid);
    store();
    state = State.STORING;
    leaveByChance();
    return true;
  }

  private void verify(LoadResult result) {
    var tables = context.tables();
    for (int group = 0; group < tables.groups(); group++) {
      var loaded = result.groups().get(group);
      for (int i = 0; i < loaded.size(); i++) {
        if (loaded.outcome(i).isWell()) {
          int at = tables.lastOf(group, result.firstBlocks().get(group) + i);
          tally.verified(context.pattern().matches(group, blocks[at], keys.get(at)));
          tables.hold(group, blocks[at]);
        }
      }
    }
  }

  /** From the first token that is not valid in every group; what was loaded behind it stays. */
  private void compute(int diskHits) {
    tally.served(request, deviceHits, diskHits, context.blockTokens());
    var tables = context.tables();
    for (int group = 0; group < tables.groups(); group++) {
      int first = tables.blocksOf(group, deviceHits + diskHits);
      for (int block = first; block < tables.blocksOf(group, blocks.length); block++) {
        int at = tables.lastOf(group, block);
        if (!tables.isHeld(group, blocks[at])) {
          context.pattern().fill(group, blocks[at], keys.get(at));
          tables.hold(group, blocks[at]);
        }
      }
    }
    for (int at = deviceHits; at < blocks.length; at++) {
      context.pool().publish(keys.get(at), blocks[at]);
    }
    published = true;
  }

  /** The whole prefix: what is stored already costs a look-up and counts as used. */
  private void store() {
    for (int group = 0; group < context.tables().groups(); group++) {
      var sources = context.tables().sources(group, blocks);
      stores.add(
          context.spillway().store(id, group, chains.get(group), 0, sources, DeviceEvent.NOW));
    }
  }

  private boolean onStored() {
    stores.clear();
    context.pool().unpin(blocks, blocks.length);
    state = State.DONE;
    return true;
  }

  // Leaving before its time.

  private void leaveByChance() {
    double draw = context.chance().nextDouble();
    boolean aborts = draw < context.abortRate();
    boolean preempted = !aborts && draw < context.abortRate() + context.preemptRate();
    if (!aborts && !preempted) {
      return;
    }
    // A preempted request whose KV is whole already need not come again.
    again = preempted && state == State.LOADING;
    tally.abortedRequests += aborts ? 1 : 0;
    tally.preemptions += preempted ? 1 : 0;
    quiet = aborts ? context.spillway().abort(id) : context.spillway().drain(id);
    state = State.LEAVING;
  }

  /** Nothing can touch the blocks any more. What was loaded well is right, but is not kept. */
  private boolean onLeft() {
    if (!published) {
      if (again) {
        verify(load.join());
      }
      context.pool().renounce(keys, deviceHits);
    }
    stores.clear();
    context.pool().unpin(blocks, blocks.length);
    state = again ? State.WAITING : State.DONE;
    again = false;
    return true;
  }
}
