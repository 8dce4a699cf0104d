package dev.spillway.engine;

import dev.spillway.block.BlockOutcome;
import dev.spillway.block.BlockStage;
import dev.spillway.block.DeviceEvent;
import dev.spillway.block.Operation;
import dev.spillway.block.TransferPlan;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * The native engine of one rank. Submissions and endings cross the JNI line as arrays of 64-byte
 * records, one call a batch in each direction.
 */
public final class NativeEngine implements TransferEngine {
  private static final int BATCH = 256;

  /** The two upper bits of a ticket name what was asked, since an ending does not. */
  private static final int KIND_SHIFT = 62;

  private static final long TICKET_MASK = (1L << KIND_SHIFT) - 1;

  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  /** Words that a lane which was left behind may still look at. */
  private static final Queue<ByteBuffer> KEPT = new ConcurrentLinkedQueue<>();

  private final ByteBuffer down = RecordLayout.allocate(BATCH * RecordLayout.DOWN_BYTES);
  private final ByteBuffer up = RecordLayout.allocate(BATCH * RecordLayout.UP_BYTES);
  private final ByteBuffer counters = RecordLayout.allocate(2 * LaneStats.COUNT * Long.BYTES);
  private final long downAddress = KvEngineNative.addressOf(down);
  private final long upAddress = KvEngineNative.addressOf(up);
  private final long countersAddress = KvEngineNative.addressOf(counters);
  private final ByteBuffer steps = RecordLayout.allocate(Long.BYTES);
  private final long stepAddress = KvEngineNative.addressOf(steps);
  private final EngineMode mode;
  private long engine;
  private boolean leaked;
  private int added;

  private NativeEngine(long engine) {
    this.engine = engine;
    this.mode = EngineMode.parse(KvEngineNative.engineDescribe(engine));
  }

  /**
   * Opens the block file and starts the lanes.
   *
   * @throws OpenRefusedException where that cannot be; nothing is left behind
   */
  public static NativeEngine open(EngineOptions options) {
    NativeLibrary.load();
    RecordLayout.verify();
    long engine = KvEngineNative.engineNew();
    var key = RecordLayout.allocate(CipherKey.BYTES);
    options.cipherKey().writeTo(key);
    var record = options.toRecord(options.cipherKey().isNone() ? 0 : KvEngineNative.addressOf(key));
    int reason =
        KvEngineNative.engineOpen(
            engine,
            terminated(options.directory().toString(), fileNameCharset()),
            terminated(options.nameSpace(), StandardCharsets.UTF_8),
            options.cudaDevice() < 0 ? new byte[1] : CudaPresets.library(options.cudaLibrary()),
            KvEngineNative.addressOf(record));
    key.put(0, new byte[key.capacity()]);
    if (reason == 0) {
      return opened(engine);
    }
    var message = KvEngineNative.engineMessage(engine);
    int errno = KvEngineNative.engineError(engine);
    KvEngineNative.engineDelete(engine);
    throw new OpenRefusedException(OpenRefusedException.Reason.of(reason), errno, message);
  }

  /** Nothing may be left behind, not even by a failure of Java. */
  private static NativeEngine opened(long engine) {
    try {
      return new NativeEngine(engine);
    } catch (RuntimeException | Error e) {
      if (KvEngineNative.engineClose(engine, Long.MAX_VALUE) == 0) {
        KvEngineNative.engineDelete(engine);
      }
      throw e;
    }
  }

  /** As C has it. JavaCPP would take the default charset, which loses letters in a C locale. */
  static byte[] terminated(String text, Charset charset) {
    byte[] bytes = text.getBytes(charset);
    return Arrays.copyOf(bytes, bytes.length + 1);
  }

  static Charset fileNameCharset() {
    return Charset.forName(System.getProperty("sun.jnu.encoding", "UTF-8"));
  }

  /** Why io_uring cannot be used by this process, or empty where it can. */
  public static String uringRefusal() {
    NativeLibrary.load();
    return KvEngineNative.uringRefusal();
  }

  /** Reserves space for a file that is there; the error number where it could not, or 0. */
  public static int reserve(Path file, long bytes) {
    NativeLibrary.load();
    return KvEngineNative.fileReserve(terminated(file.toString(), fileNameCharset()), bytes);
  }

  /** XXH3-64 of memory, as the lanes compute it. */
  public static long checksum(long address, long bytes, long seed) {
    NativeLibrary.load();
    return KvEngineNative.checksumOf(address, bytes, seed);
  }

  @Override
  public int batchCapacity() {
    return BATCH;
  }

  @Override
  public void add(long ticket, TransferPlan plan, int index, long seed, long checksum) {
    int kind = kindOf(plan.operation());
    int at = take(markOf(plan.operation()) << KIND_SHIFT | ticket, kind);
    down.putShort(at + RecordLayout.DOWN_GROUP, (short) plan.group())
        .putInt(at + RecordLayout.DOWN_DEVICE_BLOCK, plan.deviceBlock(index))
        .putInt(at + RecordLayout.DOWN_SLOT, plan.slot(index))
        .putShort(at + RecordLayout.DOWN_PATH, (short) 0)
        .putShort(at + RecordLayout.DOWN_EVENT_KIND, eventKind(plan.event()))
        .putLong(at + RecordLayout.DOWN_CHECKSUM_SEED, seed)
        .putLong(at + RecordLayout.DOWN_EXPECTED_CHECKSUM, checksum)
        .putLong(at + RecordLayout.DOWN_DEADLINE_NANOS, plan.boundNanos())
        .putLong(at + RecordLayout.DOWN_EVENT_ADDRESS, eventAddress(plan))
        .putLong(at + RecordLayout.DOWN_EVENT_VALUE, plan.event().value());
  }

  /** As {@code device/DeviceCopier.h} numbers them; a step is a word of the engine's own. */
  private static short eventKind(DeviceEvent event) {
    return switch (event.kind()) {
      case WORD, STEP -> 0;
      case CUDA_EVENT -> 1;
      case CUDA_STREAM -> 2;
    };
  }

  private long eventAddress(TransferPlan plan) {
    return plan.event().isStep() ? stepAddress : plan.event().address();
  }

  @Override
  public void stepDone(long step) {
    long before = (long) LONG.getAcquire(steps, 0);
    while (Long.compareUnsigned(step, before) > 0 && !LONG.compareAndSet(steps, 0, before, step)) {
      before = (long) LONG.getAcquire(steps, 0);
    }
  }

  @Override
  public void command(Operation operation, long ticket, long mask) {
    int at = take(ticket, operation == Operation.CANCEL ? 4 : 5);
    down.putLong(at + RecordLayout.DOWN_CHECKSUM_SEED, mask & TICKET_MASK);
  }

  /** As {@code base/Records.h} numbers what is asked for a block. */
  private static int kindOf(Operation operation) {
    return switch (operation) {
      case STORE -> 1;
      case LOAD -> 2;
      case PROBE -> 3;
      case VERIFY -> 6;
      case CANCEL, DRAIN, FORGET, TOUCH, PUNCH ->
          throw new IllegalArgumentException(operation + " is no block");
    };
  }

  /** In a ticket: what its ending is read as. */
  private static long markOf(Operation operation) {
    return operation.reads() ? kindOf(Operation.LOAD) : kindOf(operation);
  }

  private int take(long ticket, int operation) {
    if (added == BATCH) {
      throw new IllegalStateException("a batch of more than " + BATCH + " blocks");
    }
    int at = added++ * RecordLayout.DOWN_BYTES;
    down.putLong(at + RecordLayout.DOWN_TICKET, ticket)
        .putShort(at + RecordLayout.DOWN_OPERATION, (short) operation);
    return at;
  }

  @Override
  public void submit() {
    int wanted = added;
    added = 0;
    int accepted = KvEngineNative.engineSubmit(handle(), downAddress, wanted);
    if (accepted != wanted) {
      throw new IllegalStateException(
          "the native engine took " + accepted + " of a batch of " + wanted + " blocks");
    }
  }

  @Override
  public int poll() {
    return KvEngineNative.enginePoll(handle(), upAddress, BATCH);
  }

  @Override
  public long ticket(int index) {
    return rawTicket(index) & TICKET_MASK;
  }

  private long rawTicket(int index) {
    return up.getLong(index * RecordLayout.UP_BYTES + RecordLayout.UP_TICKET);
  }

  @Override
  public BlockOutcome outcome(int index) {
    int code = up.getShort(index * RecordLayout.UP_BYTES + RecordLayout.UP_OUTCOME);
    return switch ((int) (rawTicket(index) >>> KIND_SHIFT)) {
      case 1, 3 -> BlockStatus.ofStore(code); // as markOf has them
      case 2 -> BlockStatus.ofLoad(code);
      default -> throw new IllegalStateException("a ticket of no block: " + rawTicket(index));
    };
  }

  @Override
  public BlockStage stage(int index) {
    return BlockStatus.stage(up.getShort(index * RecordLayout.UP_BYTES + RecordLayout.UP_STAGE));
  }

  @Override
  public int errno(int index) {
    return up.getInt(index * RecordLayout.UP_BYTES + RecordLayout.UP_ERROR);
  }

  @Override
  public int bytesDone(int index) {
    return up.getInt(index * RecordLayout.UP_BYTES + RecordLayout.UP_BYTES_DONE);
  }

  @Override
  public long checksum(int index) {
    return up.getLong(index * RecordLayout.UP_BYTES + RecordLayout.UP_CHECKSUM);
  }

  @Override
  public int flags(int index) {
    return up.getShort(index * RecordLayout.UP_BYTES + RecordLayout.UP_KIND);
  }

  @Override
  public long nanos(int index) {
    int at = index * RecordLayout.UP_BYTES;
    return up.getLong(at + RecordLayout.UP_QUEUED_NANOS)
        + up.getLong(at + RecordLayout.UP_IO_NANOS)
        + up.getLong(at + RecordLayout.UP_VERIFY_NANOS)
        + up.getLong(at + RecordLayout.UP_COPY_NANOS);
  }

  @Override
  public void await(Duration bound) {
    KvEngineNative.engineAwait(handle(), bound.toNanos());
  }

  @Override
  public void wake() {
    if (engine != 0) {
      KvEngineNative.engineWake(engine);
    }
  }

  @Override
  public EngineMode mode() {
    return mode;
  }

  @Override
  public void raiseEpoch(long epoch) {
    int reason = KvEngineNative.engineRaiseEpoch(handle(), epoch);
    if (reason != 0) {
      throw new OpenRefusedException(
          OpenRefusedException.Reason.of(reason),
          KvEngineNative.engineError(engine),
          KvEngineNative.engineMessage(engine));
    }
  }

  @Override
  public int punch(int group, int slot) {
    return KvEngineNative.enginePunch(handle(), group, slot);
  }

  @Override
  public synchronized EngineStats stats() {
    if (engine != 0) {
      KvEngineNative.engineCounters(engine, countersAddress);
    }
    return new EngineStats(LaneStats.read(counters, 0), LaneStats.read(counters, 1));
  }

  @Override
  public String failure() {
    if (engine == 0 || KvEngineNative.engineBroken(engine) == 0) {
      return "";
    }
    return KvEngineNative.engineDescribe(engine)
        .lines()
        .filter(line -> line.startsWith("cause="))
        .map(line -> line.substring("cause=".length()))
        .findFirst()
        .orElse("unknown");
  }

  @Override
  public boolean drain(Duration bound) {
    leaked = KvEngineNative.engineClose(handle(), bound.toNanos()) != 0;
    if (leaked) {
      KEPT.add(steps);
    }
    return !leaked;
  }

  @Override
  public synchronized void close() {
    if (engine == 0) {
      return;
    }
    if (!leaked) {
      drain(Duration.ofDays(1));
    }
    KvEngineNative.engineCounters(engine, countersAddress); // what stats() answers from now on
    KvEngineNative.engineDelete(engine);
    engine = 0;
  }

  @Override
  public void discard() {
    KvEngineNative.engineDiscard(handle());
  }

  private long handle() {
    if (engine == 0) {
      throw new IllegalStateException("the engine is closed");
    }
    return engine;
  }
}
