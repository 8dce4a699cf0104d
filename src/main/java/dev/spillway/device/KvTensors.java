package dev.spillway.device;

import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import java.util.ArrayList;
import java.util.List;

/**
 * Tensors that the caller has, in the usual shapes of a KV cache: which bytes of them make up each
 * block. The memory stays the caller's and must outlive the Spillway. Immutable.
 *
 * <pre>{@code
 * var memory = KvTensors.onCuda(0)
 *     .group("attention", 16, blocks, Attention.FULL)
 *     .keysThenValues("layers.0", address0, bytes0, 32768)   // [2, blocks, 32768]
 *     .keysThenValues("layers.1", address1, bytes1, 32768)
 *     .build();
 * }</pre>
 */
public final class KvTensors implements DeviceMemory {
  private final KvLayout layout;
  private final List<List<Long>> addresses;
  private final List<Integer> blockCounts;
  private final int device;
  private final String library;

  private KvTensors(Builder builder) {
    layout = new KvLayout(builder.groups, builder.tag);
    addresses = List.copyOf(builder.addresses);
    blockCounts = List.copyOf(builder.blockCounts);
    device = builder.device;
    library = builder.library;
  }

  /** Tensors in host memory. */
  public static Builder onHost() {
    return new Builder(-1);
  }

  /** Tensors on a CUDA device, by its ordinal. */
  public static Builder onCuda(int device) {
    if (device < 0) {
      throw new IllegalArgumentException(
          "CUDA device " + device + "; an ordinal from 0 on would be right");
    }
    return new Builder(device);
  }

  @Override
  public KvLayout layout() {
    return layout;
  }

  @Override
  public int blockCount(int group) {
    return blockCounts.get(group);
  }

  @Override
  public long pieceAddress(int group, int piece) {
    return addresses.get(group).get(piece);
  }

  @Override
  public int cudaDevice() {
    return device;
  }

  @Override
  public String cudaLibrary() {
    return library;
  }

  /**
   * Takes the tensors group by group. Each is checked where it is given, by its name: that it has
   * an address, that its blocks do not overlap and that they end where it does or before. Not
   * thread-safe.
   */
  public static final class Builder {
    private final int device;
    private String library = "";
    private final List<Group> groups = new ArrayList<>();
    private final List<List<Long>> addresses = new ArrayList<>();
    private final List<Integer> blockCounts = new ArrayList<>();

    private String name = "";
    private int blockTokens;
    private int blocks;
    private String tag = "";
    private Attention attention = Attention.FULL;
    private List<Piece> pieces = new ArrayList<>();
    private List<Long> bases = new ArrayList<>();

    private Builder(int device) {
      this.device = device;
    }

    /** Path of the CUDA runtime; unless set the one that is loaded already, else installed. */
    public Builder library(String value) {
      library = value;
      return this;
    }

    /**
     * Begins a KV group, whose tensors come next.
     *
     * @param groupBlocks blocks in each of its tensors
     */
    public Builder group(String groupName, int tokens, int groupBlocks, Attention groupAttention) {
      endGroup();
      check(
          groupBlocks > 0,
          "group %s has %d blocks; at least 1 would be right",
          groupName,
          groupBlocks);
      name = groupName;
      blockTokens = tokens;
      blocks = groupBlocks;
      attention = groupAttention;
      return this;
    }

    /**
     * A tensor [blocks, bytes]: block outermost, as with K and V side by side, the latent of MLA,
     * or recurrent state.
     *
     * @param tensorBytes of the whole tensor
     * @param blockBytes of one block in it
     */
    public Builder blocks(String tensor, long base, long tensorBytes, long blockBytes) {
      return blocks(tensor, base, tensorBytes, blockBytes, blockBytes);
    }

    /**
     * The same with padding behind each block, which is not stored.
     *
     * @param stride bytes from one block to the next
     */
    public Builder blocks(
        String tensor, long base, long tensorBytes, long blockBytes, long stride) {
      checkTensor(tensor, base, tensorBytes, 1, blockBytes, stride);
      add(base, blockBytes, stride);
      return this;
    }

    /** A tensor [2, blocks, bytes]: all keys, then all values. */
    public Builder keysThenValues(
        String tensor, long base, long tensorBytes, long bytesOfKeyOrValue) {
      return outermost(tensor, base, tensorBytes, 2, bytesOfKeyOrValue);
    }

    /** A tensor [layers, blocks, bytes]: layer outermost. */
    public Builder layersOutermost(
        String tensor, long base, long tensorBytes, int layers, long bytes) {
      return outermost(tensor, base, tensorBytes, layers, bytes);
    }

    /** A tensor [blocks, layers, bytes]: packed across layers, each block in one run of bytes. */
    public Builder layersInBlocks(
        String tensor, long base, long tensorBytes, int layers, long bytes) {
      check(layers > 0, "tensor %s: %d layers; at least 1 would be right", tensor, layers);
      return blocks(tensor, base, tensorBytes, layers * bytes);
    }

    private Builder outermost(String tensor, long base, long tensorBytes, int parts, long bytes) {
      check(parts > 0, "tensor %s: %d parts; at least 1 would be right", tensor, parts);
      checkTensor(tensor, base, tensorBytes, parts, bytes, bytes);
      check(
          tensorBytes == parts * (long) blocks * bytes,
          "tensor %s of group %s has %d bytes; %d parts of %d blocks of %d bytes, one part right"
              + " behind the other, have %d",
          tensor,
          name,
          tensorBytes,
          parts,
          blocks,
          bytes,
          parts * (long) blocks * bytes);
      for (int part = 0; part < parts; part++) {
        add(base + (long) part * blocks * bytes, bytes, bytes);
      }
      return this;
    }

    private void add(long base, long bytes, long stride) {
      pieces.add(new Piece(bytes, stride));
      bases.add(base);
    }

    private void checkTensor(
        String tensor, long base, long tensorBytes, int parts, long bytes, long stride) {
      check(blocks > 0, "tensor %s before any group; group(…) first would be right", tensor);
      check(base != 0, "tensor %s has address 0; its device address would be right", tensor);
      check(
          bytes > 0 && bytes <= KvLayout.BLOCK_BYTES_MAX,
          "tensor %s: %d bytes a block; 1 to %d would be right",
          tensor,
          bytes,
          KvLayout.BLOCK_BYTES_MAX);
      check(
          stride >= bytes,
          "tensor %s: stride %d for blocks of %d bytes; at least that would be right",
          tensor,
          stride,
          bytes);
      long room = tensorBytes / parts;
      check(
          bytes <= room && (blocks == 1 || stride <= (room - bytes) / (blocks - 1)),
          "tensor %s of group %s has %d bytes; %d blocks of %d bytes, one every %d, need more",
          tensor,
          name,
          tensorBytes,
          parts * (long) blocks,
          bytes,
          stride);
      check(
          device < 0 || base % Short.BYTES == 0,
          "tensor %s has address 0x%x; an even one would be right",
          tensor,
          base);
    }

    private void endGroup() {
      if (blocks == 0) {
        return;
      }
      groups.add(new Group(name, blockTokens, pieces, attention));
      addresses.add(List.copyOf(bases));
      blockCounts.add(blocks);
      pieces = new ArrayList<>();
      bases = new ArrayList<>();
    }

    /** What else decides the meaning of the bytes, as {@link KvLayout#tag} has it. */
    public Builder tag(String value) {
      tag = value;
      return this;
    }

    public KvTensors build() {
      endGroup();
      blocks = 0;
      return new KvTensors(this);
    }

    private static void check(boolean right, String format, Object... given) {
      if (!right) {
        throw new IllegalArgumentException(format.formatted(given));
      }
    }
  }
}
