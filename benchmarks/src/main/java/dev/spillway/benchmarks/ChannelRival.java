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
 * What Java has without a library: direct {@link FileChannel} reads by some threads, each with a
 * buffer of its own, a CRC-32C (which the JVM has in vector code) and a copy of every block.
 */
final class ChannelRival implements Contender {
  private static final int ALIGNMENT = 4096;
  private static final int DEVICE_BLOCKS = 256;

  private final Setting setting;
  private final int threads;
  private final FileChannel channel;
  private final ByteBuffer[] device = new ByteBuffer[DEVICE_BLOCKS];
  private final ByteBuffer[] buffers;
  private final AtomicLong sums = new AtomicLong();

  ChannelRival(Setting setting, int threads) throws IOException {
    this.setting = setting;
    this.threads = threads;
    channel =
        FileChannel.open(setting.file(), StandardOpenOption.READ, ExtendedOpenOption.DIRECT);
    for (int i = 0; i < DEVICE_BLOCKS; i++) {
      device[i] = ByteBuffer.allocateDirect(setting.blockBytes());
    }
    buffers = new ByteBuffer[threads];
    for (int i = 0; i < threads; i++) {
      buffers[i] =
          ByteBuffer.allocateDirect(setting.blockBytes() + ALIGNMENT)
              .alignedSlice(ALIGNMENT)
              .limit(setting.blockBytes());
    }
  }

  @Override
  public String name() {
    return "FileChannel, " + threads + (threads == 1 ? " thread" : " threads");
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
      var thread = new Thread(() -> moved.addAndGet(read(number, until, seed + number)));
      thread.start();
      running.add(thread);
    }
    for (var thread : running) {
      thread.join();
    }
    double took = (System.nanoTime() - begun) * 1e-9;
    return new Sample(moved.get(), took, Contender.cpuSeconds() - cpu);
  }

  private long read(int number, long until, long seed) {
    var random = new SplittableRandom(seed);
    var buffer = buffers[number];
    var check = new CRC32C();
    long bytes = 0;
    try {
      for (int block = number; System.nanoTime() < until; block += threads) {
        long at = setting.offset() + random.nextLong(setting.slots()) * setting.blockBytes();
        if (channel.read(buffer.clear().limit(setting.blockBytes()), at) != setting.blockBytes()) {
          throw new IOException("a short read at " + at);
        }
        check.reset();
        check.update(buffer.flip());
        device[block % DEVICE_BLOCKS].clear().put(buffer.flip());
        sums.addAndGet(check.getValue());
        bytes += setting.blockBytes();
      }
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    return bytes;
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
