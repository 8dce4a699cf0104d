package dev.spillway.benchmarks;

import static org.lwjgl.system.linux.liburing.LibURing.*;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import org.lwjgl.system.MemoryStack;
import org.lwjgl.system.MemoryUtil;
import org.lwjgl.system.linux.FCNTL;
import org.lwjgl.system.linux.IOVec;
import org.lwjgl.system.linux.UNISTD;
import org.lwjgl.system.linux.liburing.IOURing;
import org.lwjgl.system.linux.liburing.IOURingCQE;

/**
 * io_uring from Java through LWJGL: one thread, one ring, registered buffers, twice as many as the
 * depth, a CRC-32C and a copy of every block. The ring is fed before a block is worked on.
 */
final class LwjglRival implements Contender {
  private static final int DEVICE_BLOCKS = 256;
  private static final int ALIGNMENT = 4096;

  private final Setting setting;
  private final boolean writes;
  private final int file;
  private final IOURing ring = IOURing.calloc();
  private final long staging;
  private final ByteBuffer[] buffers;
  private final ByteBuffer[] device = new ByteBuffer[DEVICE_BLOCKS];
  private final ArrayDeque<Integer> free = new ArrayDeque<>();
  private final ArrayDeque<Integer> moved = new ArrayDeque<>();
  private final CRC32C check = new CRC32C();
  private long sum;
  private int inFlight;
  private int nextBlock;

  static LwjglRival reads(Setting setting) throws IOException {
    return new LwjglRival(setting, false, setting.file());
  }

  static LwjglRival writes(Setting setting) throws IOException {
    return new LwjglRival(setting, true, setting.writeFile());
  }

  private LwjglRival(Setting setting, boolean writes, Path path) throws IOException {
    this.setting = setting;
    this.writes = writes;
    int count = 2 * setting.depth();
    staging = MemoryUtil.nmemAlignedAllocChecked(ALIGNMENT, (long) count * setting.blockBytes());
    buffers = new ByteBuffer[count];
    for (int i = 0; i < count; i++) {
      buffers[i] =
          MemoryUtil.memByteBuffer(staging + (long) i * setting.blockBytes(), setting.blockBytes());
      free.add(i);
    }
    for (int i = 0; i < DEVICE_BLOCKS; i++) {
      device[i] = ByteBuffer.allocateDirect(setting.blockBytes());
    }
    try (var stack = MemoryStack.stackPush()) {
      file =
          FCNTL.open(
              null, stack.UTF8(path.toString()), (writes ? FCNTL.O_RDWR : 0) | FCNTL.O_DIRECT, 0);
      well(file, "open");
      well(io_uring_queue_init(setting.depth(), ring, 0), "io_uring_queue_init");
      var vectors = IOVec.calloc(count, stack);
      for (int i = 0; i < count; i++) {
        vectors.get(i).iov_base(buffers[i]);
      }
      well(io_uring_register_buffers(ring, vectors), "io_uring_register_buffers");
    }
  }

  private static void well(int result, String call) throws IOException {
    if (result < 0) {
      throw new IOException(call + " gave " + result);
    }
  }

  @Override
  public String name() {
    return "LWJGL io_uring";
  }

  @Override
  public String command() {
    return "LwjglRival in this program";
  }

  @Override
  public Sample run(double seconds, long seed) throws IOException {
    var random = new SplittableRandom(seed);
    double cpu = Contender.cpuSeconds();
    long begun = System.nanoTime();
    long until = begun + (long) (seconds * 1e9);
    long blocks = 0;
    try (var stack = MemoryStack.stackPush()) {
      var completions = stack.mallocPointer(setting.depth());
      boolean over = false;
      while (!over || inFlight > 0) {
        over = over || System.nanoTime() >= until;
        while (!over && inFlight < setting.depth() && !free.isEmpty()) {
          issue(free.pop(), random);
        }
        int wait = moved.isEmpty() && inFlight > 0 ? 1 : 0;
        well(io_uring_submit_and_wait(ring, wait), "io_uring_submit_and_wait");
        int count = io_uring_peek_batch_cqe(ring, completions);
        for (int i = 0; i < count; i++) {
          reap(completions.get(i));
        }
        io_uring_cq_advance(ring, count);
        blocks += count;
        if (!moved.isEmpty()) {
          finish(moved.pop());
        }
      }
    }
    while (!moved.isEmpty()) {
      finish(moved.pop());
    }
    double took = (System.nanoTime() - begun) * 1e-9;
    return new Sample(blocks * setting.blockBytes(), took, Contender.cpuSeconds() - cpu);
  }

  private void issue(int index, SplittableRandom random) {
    var entry = io_uring_get_sqe(ring);
    var buffer = buffers[index];
    long at = random.nextLong(setting.slots()) * setting.blockBytes();
    if (writes) {
      buffer.clear().put(device[nextBlock++ % DEVICE_BLOCKS].clear());
      add(buffer.flip());
      io_uring_prep_write_fixed(entry, file, buffer.clear(), at, index);
    } else {
      io_uring_prep_read_fixed(entry, file, buffer.clear(), setting.offset() + at, index);
    }
    io_uring_sqe_set_data64(entry, index);
    inFlight++;
  }

  private void reap(long completion) throws IOException {
    int result = IOURingCQE.nres(completion);
    if (result != setting.blockBytes()) {
      throw new IOException("a request gave " + result);
    }
    int index = (int) IOURingCQE.nuser_data(completion);
    inFlight--;
    (writes ? free : moved).push(index);
  }

  private void finish(int index) {
    add(buffers[index].clear());
    device[nextBlock++ % DEVICE_BLOCKS].clear().put(buffers[index].clear());
    free.push(index);
  }

  private void add(ByteBuffer buffer) {
    check.reset();
    check.update(buffer);
    sum += check.getValue();
  }

  @Override
  public void close() throws IOException {
    io_uring_queue_exit(ring);
    ring.free();
    MemoryUtil.nmemAlignedFree(staging);
    UNISTD.close(null, file);
    if (sum == 1) {
      throw new IOException("the checksums are not to be optimised away");
    }
  }
}
