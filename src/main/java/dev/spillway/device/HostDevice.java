package dev.spillway.device;

import dev.spillway.block.KvLayout;
import dev.spillway.engine.NativeMemory;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Device memory that is host memory: for engines that run on the processor, for the replay and for
 * tests. Tensors lie one after the other in one mapping of huge pages, each at a multiple of 64
 * bytes. Views may be used by any thread, subject to the transfers in flight.
 */
public final class HostDevice implements BlockMemory {
  private final TensorPlaces places;
  private final NativeMemory memory;

  private HostDevice(TensorPlaces places) {
    this.places = places;
    memory = NativeMemory.map(places.bytes());
  }

  /** Memory for {@code blockCount} blocks of every group, all zero. */
  public static HostDevice allocate(KvLayout layout, int blockCount) {
    var counts = new int[layout.groups().size()];
    Arrays.fill(counts, blockCount);
    return allocate(layout, counts);
  }

  /** Memory for so many blocks of each group. */
  public static HostDevice allocate(KvLayout layout, int[] blockCounts) {
    return new HostDevice(new TensorPlaces(layout, blockCounts));
  }

  @Override
  public KvLayout layout() {
    return places.layout();
  }

  @Override
  public int blockCount(int group) {
    return places.blockCount(group);
  }

  @Override
  public long pieceAddress(int group, int piece) {
    return memory.address() + places.offset(group, piece);
  }

  /** The bytes of one block's piece, in the byte order of this machine. */
  public ByteBuffer piece(int group, int piece, int block) {
    long bytes = places.layout().group(group).pieces().get(piece).bytes();
    return memory.view(places.offset(group, piece, block), Math.toIntExact(bytes));
  }

  @Override
  public void read(int group, int piece, int block, ByteBuffer target) {
    target.duplicate().put(checked(group, piece, block, target));
  }

  @Override
  public void write(int group, int piece, int block, ByteBuffer source) {
    checked(group, piece, block, source).put(source.duplicate());
  }

  private ByteBuffer checked(int group, int piece, int block, ByteBuffer buffer) {
    places.checkSize(group, piece, buffer);
    return piece(group, piece, block);
  }

  /** The bytes of a block of group 0 whose blocks are one piece. */
  public ByteBuffer block(int block) {
    return piece(0, 0, block);
  }

  @Override
  public void close() {
    memory.close();
  }
}
