package dev.spillway.block;

import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * What a rank is to move: numbers only, no keys and no requests. One object serves transfer after
 * transfer. From {@code submit} until its last block has been reported it belongs to the worker.
 */
public final class TransferPlan {
  /** Bits of a transfer's id, and of a block's index in its plan: together a ticket of 62 bits. */
  public static final int ID_BITS = 42;

  public static final int INDEX_BITS = 20;

  /** The low bits of an id: its place among the transfers that are open at a time. */
  public static final int PLACE_BITS = 16;

  /** A punch before a transfer's own, a drain and a cancel, and a word that it is forgotten. */
  public static final int PLANS_A_TRANSFER = 5;

  public static final long PLACE_MASK = (1L << PLACE_BITS) - 1;
  public static final int BLOCKS_MAX = 1 << INDEX_BITS;

  private static final int HEAD_BYTES = 40;
  private static final int BLOCK_BYTES = 56;
  private static final Operation[] OPERATIONS = Operation.values();

  private int[] slots = new int[16];
  private long[] generations = new long[16];
  private long[] seeds = new long[16];
  private int[] deviceBlocks = new int[16];
  private int[] positions = new int[16];
  private long[] highs = new long[16];
  private long[] lows = new long[16];
  private long[] tenants = new long[16];
  private int[] depths = new int[16];
  private int size;

  private long transferId;
  private Operation operation = Operation.STORE;
  private int group;
  private DeviceEvent event = DeviceEvent.NOW;
  private long boundNanos;

  /** Empties the plan for another transfer. */
  public void begin(long newTransferId, Operation newOperation, int newGroup, DeviceEvent after) {
    transferId = newTransferId;
    operation = newOperation;
    group = newGroup;
    event = after;
    boundNanos = 0;
    size = 0;
  }

  /** A cancel or a drain of a transfer's blocks. */
  public static TransferPlan command(Operation operation, long transferId) {
    var plan = new TransferPlan();
    plan.begin(transferId, operation, 0, DeviceEvent.NOW);
    return plan;
  }

  /** How long a block may take from when its rank accepts it, nanoseconds; 0 for no bound. */
  public void bound(long nanos) {
    boundNanos = nanos;
  }

  public long boundNanos() {
    return boundNanos;
  }

  /** Gives the plan the id that its endings will name. */
  public void identify(long newTransferId) {
    transferId = newTransferId;
  }

  /**
   * Adds a block that a rank need not know again: one that is loaded or tried.
   *
   * @param position its index in the transfer, which reports name
   * @param slot its slot in the group's region on disk
   * @param generation of the slot's content
   * @param seed of the checksum, before the rank is mixed in
   */
  public void add(int position, int slot, long generation, long seed, int deviceBlock) {
    if (size == slots.length) {
      grow(2 * size);
    }
    positions[size] = position;
    slots[size] = slot;
    generations[size] = generation;
    seeds[size] = seed;
    deviceBlocks[size] = deviceBlock;
    highs[size] = 0;
    lows[size] = 0;
    tenants[size] = 0;
    depths[size] = 0;
    size++;
  }

  /**
   * Names the block added last, for what the rank keeps of it beyond this process.
   *
   * @param tenant tag of who it belongs to, 0 for nobody in particular
   * @param depth its place in its prefix
   */
  public void name(long high, long low, long tenant, int depth) {
    highs[size - 1] = high;
    lows[size - 1] = low;
    tenants[size - 1] = tenant;
    depths[size - 1] = depth;
  }

  private void grow(int capacity) {
    positions = Arrays.copyOf(positions, capacity);
    slots = Arrays.copyOf(slots, capacity);
    generations = Arrays.copyOf(generations, capacity);
    seeds = Arrays.copyOf(seeds, capacity);
    deviceBlocks = Arrays.copyOf(deviceBlocks, capacity);
    highs = Arrays.copyOf(highs, capacity);
    lows = Arrays.copyOf(lows, capacity);
    tenants = Arrays.copyOf(tenants, capacity);
    depths = Arrays.copyOf(depths, capacity);
  }

  /** What {@link #writeTo} takes, bytes. */
  public int encodedBytes() {
    return HEAD_BYTES + size * BLOCK_BYTES;
  }

  /** For a rank in another process, in the byte order of the buffer. */
  @SuppressWarnings("EnumOrdinal") // both ends have the same version
  public void writeTo(ByteBuffer target) {
    target
        .putLong(transferId)
        .putInt(operation.ordinal())
        .putInt(group)
        .putInt(event.isStep() ? 1 : 0)
        .putLong(event.value())
        .putLong(boundNanos)
        .putInt(size);
    for (int i = 0; i < size; i++) {
      target.putInt(positions[i]).putInt(slots[i]).putLong(generations[i]);
      target.putLong(seeds[i]).putInt(deviceBlocks[i]);
      target.putLong(highs[i]).putLong(lows[i]).putLong(tenants[i]).putInt(depths[i]);
    }
  }

  /**
   * What {@link #writeTo} has written.
   *
   * @throws IllegalArgumentException where it cannot be a plan
   */
  public static TransferPlan readFrom(ByteBuffer source) {
    var plan = new TransferPlan();
    long id = source.getLong();
    int operation = source.getInt();
    if (operation < 0 || operation >= OPERATIONS.length) {
      throw new IllegalArgumentException("a plan with operation " + operation);
    }
    int group = source.getInt();
    boolean step = source.getInt() != 0;
    long value = source.getLong();
    var event = step ? DeviceEvent.ofStep(value) : DeviceEvent.NOW;
    plan.begin(id, OPERATIONS[operation], group, event);
    plan.bound(source.getLong());
    int count = source.getInt();
    if (count < 0 || count > BLOCKS_MAX || source.remaining() != count * BLOCK_BYTES) {
      throw new IllegalArgumentException(
          "a plan of %d blocks in %d bytes".formatted(count, source.remaining()));
    }
    for (int i = 0; i < count; i++) {
      plan.add(
          source.getInt(), source.getInt(), source.getLong(), source.getLong(), source.getInt());
      plan.name(source.getLong(), source.getLong(), source.getLong(), source.getInt());
    }
    return plan;
  }

  public long transferId() {
    return transferId;
  }

  public Operation operation() {
    return operation;
  }

  public int group() {
    return group;
  }

  /** The moment after which the copy may read its source or overwrite its destination. */
  public DeviceEvent event() {
    return event;
  }

  public int size() {
    return size;
  }

  public int position(int index) {
    return positions[index];
  }

  /** Which of the blocks has a position, or -1. */
  public int indexOf(int position) {
    for (int i = 0; i < size; i++) {
      if (positions[i] == position) {
        return i;
      }
    }
    return -1;
  }

  public int slot(int index) {
    return slots[index];
  }

  public long generation(int index) {
    return generations[index];
  }

  public long seed(int index) {
    return seeds[index];
  }

  public int deviceBlock(int index) {
    return deviceBlocks[index];
  }

  public long high(int index) {
    return highs[index];
  }

  public long low(int index) {
    return lows[index];
  }

  public long tenant(int index) {
    return tenants[index];
  }

  public int depth(int index) {
    return depths[index];
  }
}
