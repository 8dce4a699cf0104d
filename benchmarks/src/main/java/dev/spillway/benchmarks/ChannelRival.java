package dev.spillway.benchmarks;

import com.sun.nio.file.ExtendedOpenOption;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32C;

/**
 * What Java has without a library: direct {@link FileChannel} reads or writes by some threads, each
 * with buffers of its own, a CRC-32C (which the JVM has in vector code) and a copy of every block.
 * With one thread it is the loop of one block a call.
 */
final class ChannelRival implements Contender {
  private static final int ALIGNMENT = 4096;
  private static final int DEVICE_BLOCKS = 256;

  private final Setting setting;
  private final int threads;
  private final int slots;
  private final boolean writes;
  private final FileChannel channel;
  private final ByteBuffer[] device = new ByteBuffer[DEVICE_BLOCKS];
  private final ByteBuffer[] buffers;
  private final AtomicLong sums = new AtomicLong();

  static ChannelRival reads(Setting setting, int threads) throws IOException {
    return new ChannelRival(setting, threads, threads, false);
  }

  static ChannelRival writes(Setting setting, int threads) throws IOException {
    return new ChannelRival(setting, threads, threads, true);
  }

  static ChannelRival loop(Setting setting, int slots) throws IOException {
    return new ChannelRival(setting, 1, slots, false);
  }

  private ChannelRival(Setting setting, int threads, int slots, boolean writes)
      throws IOException {
    this.setting = setting;
    this.threads = threads;
    this.slots = slots;
    this.writes = writes;
    channel =
        writes
            ? FileChannel.open(
                setting.writeFile(), StandardOpenOption.WRITE, ExtendedOpenOption.DIRECT)
            : FileChannel.open(
                setting.file(), StandardOpenOption.READ, ExtendedOpenOption.DIRECT);
    for (int i = 0; i < DEVICE_BLOCKS; i++) {
      device[i] = ByteBuffer.allocateDirect(setting.blockBytes());
    }
    buffers = new ByteBuffer[slots];
    for (int i = 0; i < slots; i++) {
      buffers[i] =
          ByteBuffer.allocateDirect(setting.blockBytes() + ALIGNMENT)
              .alignedSlice(ALIGNMENT)
              .limit(setting.blockBytes());
    }
  }

  @Override
  public String name() {
    return slots == threads
        ? "FileChannel, " + threads + (threads == 1 ? " thread" : " threads")
        : "FileChannel loop, " + slots + " slots";
  }

  @Override
  public String command() {
    return "ChannelRival in this program";
  }

  @Override
  public Sample run(double seconds, long seed) throws InterruptedException {
    var moved = new AtomicLong();
    long begun = System.nanoTime();
    long until = begun + (long) (seconds * 1e9);
    double cpu = Contender.cpuSeconds();
    var running = new ArrayList<Thread>();
    for (int i = 0; i < threads; i++) {
      int number = i;
      var thread = new Thread(() -> moved.addAndGet(go(number, until, seed + number)));
      thread.start();
      running.add(thread);
    }
    for (var thread : running) {
      thread.join();
    }
    double took = (System.nanoTime() - begun) * 1e-9;
    return new Sample(moved.get(), took, Contender.cpuSeconds() - cpu);
  }

  private long go(int number, long until, long seed) {
    var random = new SplittableRandom(seed);
    var check = new CRC32C();
    int first = writes ? 0 : Math.toIntExact(setting.offset());
    long bytes = 0;
    try {
      for (int block = number; System.nanoTime() < until; block += threads) {
        var buffer = buffers[block % slots];
        long at = first + random.nextLong(setting.slots()) * setting.blockBytes();
        if (writes) {
          write(buffer, at, block, check);
        } else {
          read(buffer, at, block, check);
        }
        sums.addAndGet(check.getValue());
        bytes += setting.blockBytes();
      }
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    return bytes;
  }

  private void read(ByteBuffer buffer, long at, int block, CRC32C check) throws IOException {
    if (channel.read(buffer.clear().limit(setting.blockBytes()), at) != setting.blockBytes()) {
      throw new IOException("a short read at " + at);
    }
    check.reset();
    check.update(buffer.flip());
    device[block % DEVICE_BLOCKS].clear().put(buffer.flip());
  }

  private void write(ByteBuffer buffer, long at, int block, CRC32C check) throws IOException {
    buffer.clear().put(device[block % DEVICE_BLOCKS].clear());
    check.reset();
    check.update(buffer.flip());
    if (channel.write(buffer.flip(), at) != setting.blockBytes()) {
      throw new IOException("a short write at " + at);
    }
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
