package dev.spillway;

import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** Lets the owner sleep until a rank's thread has something for it. */
final class OwnerWaker {
  private volatile @Nullable Thread sleeper;

  /** Sleeps up to the bound, unless there is something; the owner's thread. */
  void sleep(Duration bound, BooleanSupplier something) {
    sleeper = Thread.currentThread();
    boolean interrupted = Thread.interrupted(); // which would make every sleep a short one
    if (!something.getAsBoolean()) {
      LockSupport.parkNanos(this, bound.toNanos());
    }
    sleeper = null;
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Any thread, after it has put something where the owner looks. */
  void wake() {
    VarHandle.fullFence(); // what was put there must be seen before a sleeper is missed
    LockSupport.unpark(sleeper);
  }
}
