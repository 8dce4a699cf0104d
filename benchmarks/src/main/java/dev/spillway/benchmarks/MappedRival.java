package dev.spillway.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32C;

/**
 * The file mapped into memory and read by some threads, with a CRC-32C and a copy of every block.
 * Cold at the start of each turn, where the page cache can be dropped; what it reads twice in a
 * turn comes from there.
 */
final class MappedRival implements Contender {
  private static final int DEVICE_BLOCKS = 256;
  private static final Path DROP = Path.of("/proc/sys/vm/drop_caches");

  private final Setting setting;
  private final int threads;
  private final MappedByteBuffer[] parts;
  private final int slotsAPart;
  private final ByteBuffer[] device = new ByteBuffer[DEVICE_BLOCKS];
  private final AtomicLong sums = new AtomicLong();

  MappedRival(Setting setting, int threads) throws IOException {
    this.setting = setting;
    this.threads = threads;
    slotsAPart = (1 << 30) / setting.blockBytes();
    parts = new MappedByteBuffer[(int) ((setting.slots() + slotsAPart - 1) / slotsAPart)];
    try (var channel = FileChannel.open(setting.file(), StandardOpenOption.READ)) {
      for (int part = 0; part < parts.length; part++) {
        long first = (long) part * slotsAPart;
        long slots = Math.min(slotsAPart, setting.slots() - first);
        parts[part] =
            channel.map(
                FileChannel.MapMode.READ_ONLY,
                setting.offset() + first * setting.blockBytes(),
                slots * setting.blockBytes());
      }
    }
    for (int i = 0; i < DEVICE_BLOCKS; i++) {
      device[i] = ByteBuffer.allocateDirect(setting.blockBytes());
    }
  }

  @Override
  public String name() {
    return "mapped memory, " + threads + " threads";
  }

  @Override
  public String command() {
    return "MappedRival in this program, page cache dropped before each turn";
  }

  @Override
  public Sample run(double seconds, long seed) throws IOException, InterruptedException {
    Files.writeString(DROP, "1");
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
    long bytes = 0;
    for (int block = number; System.nanoTime() < until; block += threads) {
      int slot = (int) random.nextLong(setting.slots());
      int at = slot % slotsAPart * setting.blockBytes();
      var mapped = parts[slot / slotsAPart].slice(at, setting.blockBytes());
      check.reset();
      check.update(mapped);
      device[block % DEVICE_BLOCKS].clear().put(mapped.flip());
      sums.addAndGet(check.getValue());
      bytes += setting.blockBytes();
    }
    return bytes;
  }
}
