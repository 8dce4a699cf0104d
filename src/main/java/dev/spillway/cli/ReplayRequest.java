package dev.spillway.cli;

import dev.spillway.Spillway;
import dev.spillway.block.BlockKey;
import dev.spillway.block.BlockKeys;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.TransferResult;
import dev.spillway.index.Lease;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * One request on its way through the replay's scheduler: what the device has is pinned, what
 * Spillway has is loaded and compared, the rest is computed, and all of it is stored.
 *
 * <pre>
 * (start) → LOADING → STORING → DONE
 * </pre>
 */
final class ReplayRequest {
  private enum State {
    LOADING,
    STORING,
    DONE
  }

  /** What all requests of a replay share. */
  record Context(
      Spillway spillway, DevicePool pool, BlockPattern pattern, int groups, int blockTokens) {}

  private final Context context;
  private final ReplayTally tally;
  private final Request request;
  private final List<BlockKey> keys;
  private final BlockKeys chain;
  private final int[] blocks;
  private final BitSet toCompute = new BitSet();
  private final List<CompletableFuture<TransferResult>> transfers = new ArrayList<>();
  private State state = State.LOADING;
  private int deviceHits;
  private int leased;
  private int diskHits;

  ReplayRequest(Context context, ReplayTally tally, Request request, List<BlockKey> keys) {
    this.context = context;
    this.tally = tally;
    this.request = request;
    this.keys = keys;
    chain = BlockKeys.of(keys);
    blocks = new int[keys.size()];
  }

  /**
   * Pins, looks up and begins to load. False, and nothing done, where the pool has no room or a
   * running request is about to bring the next block to the device.
   */
  boolean start() {
    var pool = context.pool();
    deviceHits = pool.pinPrefix(keys, blocks);
    boolean promised = deviceHits < keys.size() && pool.isPromised(keys.get(deviceHits));
    if (promised || !pool.take(blocks, deviceHits)) {
      pool.unpin(blocks, deviceHits);
      return false;
    }
    pool.promise(keys, deviceHits);
    var leases = new ArrayList<Lease>();
    leased = keys.size() - deviceHits;
    for (int group = 0; group < context.groups(); group++) {
      var lease = context.spillway().lookup(group, chain, deviceHits);
      leases.add(lease);
      leased = Math.min(leased, lease.size());
    }
    if (leased > 0) {
      var targets = Arrays.copyOfRange(blocks, deviceHits, deviceHits + leased);
      leases.forEach(lease -> transfers.add(context.spillway().load(lease, targets)));
    }
    leases.forEach(Lease::close);
    return true;
  }

  /** Takes the next step where it can be taken; answers whether it was. */
  boolean doWork() {
    if (state == State.DONE || !transfers.stream().allMatch(CompletableFuture::isDone)) {
      return false;
    }
    switch (state) {
      case LOADING -> onLoaded();
      case STORING -> onStored();
      case DONE -> {}
    }
    return true;
  }

  boolean isDone() {
    return state == State.DONE;
  }

  private void onLoaded() {
    toCompute.set(deviceHits + leased, keys.size());
    diskHits = leased;
    for (int group = 0; group < transfers.size(); group++) {
      var result = transfers.get(group).join();
      tally.loaded(result.nanos());
      diskHits = Math.min(diskHits, result.wellPrefix());
      result.faults().keySet().forEach(position -> toCompute.set(deviceHits + position));
      verify(group, result);
    }
    transfers.clear();
    compute();
    store();
    state = State.STORING;
  }

  private void verify(int group, TransferResult result) {
    for (int i = 0; i < leased; i++) {
      if (result.outcome(i).isWell()) {
        int at = deviceHits + i;
        tally.verified(context.pattern().matches(group, blocks[at], keys.get(at)));
      }
    }
  }

  /** A block that failed in one group is computed in all: the whole layer stack is run again. */
  private void compute() {
    tally.served(request, deviceHits, diskHits, context.blockTokens());
    for (int at = toCompute.nextSetBit(0); at >= 0; at = toCompute.nextSetBit(at + 1)) {
      for (int group = 0; group < context.groups(); group++) {
        context.pattern().fill(group, blocks[at], keys.get(at));
      }
    }
    for (int at = deviceHits; at < blocks.length; at++) {
      context.pool().publish(keys.get(at), blocks[at]);
    }
  }

  /** The whole prefix: what is stored already costs a look-up and counts as used. */
  private void store() {
    for (int group = 0; group < context.groups(); group++) {
      transfers.add(context.spillway().store(group, chain, 0, blocks, DeviceEvent.NOW));
    }
  }

  private void onStored() {
    transfers.clear();
    context.pool().unpin(blocks, blocks.length);
    state = State.DONE;
  }
}
