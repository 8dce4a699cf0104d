package dev.spillway.benchmarks;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;

/** One way to move blocks of a size between a file and memory, for some seconds at a time. */
interface Contender extends AutoCloseable {
  /**
   * What a turn came to.
   *
   * @param bytes payload moved
   * @param cpuSeconds of all threads that took part, user and system
   * @param depth requests in flight, the mean over time; 0: not known
   * @param enters system calls of the ring a block; 0: not known
   */
  record Sample(long bytes, double seconds, double cpuSeconds, double depth, double enters) {
    Sample(long bytes, double seconds, double cpuSeconds) {
      this(bytes, seconds, cpuSeconds, 0, 0);
    }

    double gigabytesPerSecond() {
      return bytes / seconds / 1e9;
    }

    double cpuSecondsPerGigabyte() {
      return cpuSeconds / bytes * 1e9;
    }
  }

  String name();

  /** How to do the same by hand. */
  String command();

  Sample run(double seconds, long seed) throws IOException, InterruptedException;

  @Override
  default void close() throws IOException {}

  /** Processor seconds of this process so far. */
  static double cpuSeconds() {
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return system.getProcessCpuTime() * 1e-9;
  }
}
