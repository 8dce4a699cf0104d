package dev.spillway;

import dev.spillway.block.KvLayout;
import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import dev.spillway.engine.EngineMode;
import dev.spillway.engine.EngineStats;
import dev.spillway.engine.TransferEngine;
import dev.spillway.ledger.TransferLedger;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * A rank that works and reports when the dice say so, and that can be lost: then its last words,
 * where it has any, come late or never. What a Spillway over such ranks needs besides is here too.
 */
public final class SimulatedRank implements Rank {
  private final LocalRank rank;
  private final Random random;
  private boolean steady;
  private boolean lost;
  private boolean silent;

  public SimulatedRank(
      TransferEngine engine,
      int number,
      int count,
      KvLayout layout,
      int blocksInFlightMax,
      Random random) {
    this.random = random;
    rank =
        new LocalRank(
            engine,
            LocalRank.helloOf(engine, number, count, layout, null),
            null,
            TransferLedger.transfersMax(blocksInFlightMax),
            () -> 0,
            null);
  }

  /** A Spillway whose ranks are these and whose time is this. */
  public static Spillway open(
      SpillwayConfig config, List<SimulatedRank> ranks, LongSupplier nanoClock) {
    return new Spillway(config, List.copyOf(ranks), new OwnerWaker(), nanoClock);
  }

  /** Checks the whole index. */
  public static void verify(Spillway spillway) {
    spillway.verify();
  }

  /** From now on it does all there is to do, at once. */
  public void steady() {
    steady = true;
    silent = false;
  }

  /** Nothing more is to be expected of it; what it has to say it says late. */
  public void lose() {
    lost = true;
    silent = true;
  }

  private boolean isInTheMood() {
    return steady || random.nextBoolean();
  }

  @Override
  public void drive() {
    if (isInTheMood()) {
      rank.drive();
    }
  }

  @Override
  public void work() {
    if (isInTheMood()) {
      rank.work();
    }
  }

  @Override
  public void takeReports(Consumer<RankReport> target) {
    if (!silent && isInTheMood()) {
      rank.takeReports(target);
    }
  }

  @Override
  public boolean hasReports() {
    return !silent && rank.hasReports();
  }

  @Override
  public @Nullable String loss() {
    return lost ? "lost by the dice" : null;
  }

  @Override
  public boolean drain(Duration bound, Consumer<RankReport> target) {
    return rank.drain(bound, target);
  }

  @Override
  public @Nullable RestoredBlocks nextRestored() {
    return rank.nextRestored();
  }

  @Override
  public boolean hasRestored() {
    return rank.hasRestored();
  }

  @Override
  public String recordTrouble() {
    return rank.recordTrouble();
  }

  @Override
  public RankHello hello() {
    return rank.hello();
  }

  @Override
  public EngineMode mode() {
    return rank.mode();
  }

  @Override
  public EngineStats stats() {
    return rank.stats();
  }

  @Override
  public String engineFailure() {
    return rank.engineFailure();
  }

  @Override
  public void begin(long epoch) {
    rank.begin(epoch);
  }

  @Override
  public void send(TransferPlan plan) {
    rank.send(plan);
  }

  @Override
  public void stepDone(long step) {
    rank.stepDone(step);
  }

  @Override
  public void await(Duration bound) {
    rank.await(bound);
  }

  @Override
  public void leave() {
    rank.leave();
  }

  @Override
  public void close() {
    rank.close();
  }
}
