package dev.spillway.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.rocksdb.CompressionType;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteOptions;

/**
 * RocksDB with the blocks in blob files, read directly by some threads into the device's memory
 * (that is its copy); its own checksums are verified.
 */
final class RocksRival implements Contender {
  private static final int DEVICE_BLOCKS = 256;

  static {
    RocksDB.loadLibrary();
  }

  private final Setting setting;
  private final int threads;
  private final Path directory;
  private final Options options;
  private final ReadOptions reading = new ReadOptions().setVerifyChecksums(true);
  private final RocksDB database;
  private final ByteBuffer[] device = new ByteBuffer[DEVICE_BLOCKS];

  RocksRival(Path root, Setting setting, int threads) throws IOException {
    this.setting = setting;
    this.threads = threads;
    directory = Files.createTempDirectory(root, "rocks-");
    options =
        new Options()
            .setCreateIfMissing(true)
            .setEnableBlobFiles(true)
            .setMinBlobSize(1024)
            .setCompressionType(CompressionType.NO_COMPRESSION)
            .setBlobCompressionType(CompressionType.NO_COMPRESSION)
            .setUseDirectReads(true)
            .setUseDirectIoForFlushAndCompaction(true);
    try {
      database = RocksDB.open(options, directory.toString());
      fill();
    } catch (RocksDBException e) {
      throw new IOException(e);
    }
    for (int i = 0; i < DEVICE_BLOCKS; i++) {
      device[i] = ByteBuffer.allocateDirect(setting.blockBytes());
    }
  }

  private void fill() throws RocksDBException {
    var key = ByteBuffer.allocateDirect(Long.BYTES);
    var bytes = new byte[setting.blockBytes()];
    new Random(1).nextBytes(bytes);
    var value = ByteBuffer.allocateDirect(setting.blockBytes()).put(bytes);
    try (var writing = new WriteOptions().setDisableWAL(true)) {
      for (long slot = 0; slot < setting.slots(); slot++) {
        database.put(writing, key.clear().putLong(slot).flip(), value.clear());
      }
    }
    try (var flushing = new org.rocksdb.FlushOptions().setWaitForFlush(true)) {
      database.flush(flushing);
    }
  }

  @Override
  public String name() {
    return "RocksDB blobs, " + threads + " threads";
  }

  @Override
  public String command() {
    return "RocksRival in this program: blob files, direct reads, no compression, checksums";
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
    var key = ByteBuffer.allocateDirect(Long.BYTES);
    long bytes = 0;
    try {
      for (int block = number; System.nanoTime() < until; block += threads) {
        key.clear().putLong(random.nextLong(setting.slots())).flip();
        int got = database.get(reading, key, device[block % DEVICE_BLOCKS].clear());
        if (got != setting.blockBytes()) {
          throw new IllegalStateException(got + " bytes of " + setting.blockBytes());
        }
        bytes += setting.blockBytes();
      }
    } catch (RocksDBException e) {
      throw new IllegalStateException(e);
    }
    return bytes;
  }

  @Override
  public void close() throws IOException {
    database.close();
    reading.close();
    options.close();
    try (var files = Files.walk(directory)) {
      for (var file : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    }
  }
}
