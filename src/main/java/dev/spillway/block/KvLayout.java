package dev.spillway.block;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * How a model's KV cache is cut into blocks: one or more groups, each with its own tokens a block,
 * whose blocks lie in pieces, one in each tensor. A block's pieces are packed back to back, in the
 * order given, into one slot on disk. Immutable.
 *
 * @param groups the KV groups, group 0 first
 * @param tag what else decides what the bytes mean, such as the order of dimensions within a piece;
 *     blocks of another tag are never served. Empty where sizes say it all
 */
public record KvLayout(List<Group> groups, String tag) {
  public static final int GROUPS_MAX = 16;

  /** Payload of one block: at least a sector, at most what one request moves well. */
  public static final long BLOCK_BYTES_MIN = 512;

  public static final long BLOCK_BYTES_MAX = 64L << 20;

  /**
   * One KV group.
   *
   * @param name for messages and reports
   * @param blockTokens tokens that a block covers
   * @param pieces where a block's bytes lie, in packed order
   * @param attention which of its blocks a prefix needs
   */
  public record Group(String name, int blockTokens, List<Piece> pieces, Attention attention) {
    /** A group of full attention. */
    public Group(String name, int blockTokens, List<Piece> pieces) {
      this(name, blockTokens, pieces, Attention.FULL);
    }

    public Group {
      pieces = List.copyOf(pieces);
      check(
          blockTokens > 0,
          "group %s: blockTokens is %d; at least 1 would be right",
          name,
          blockTokens);
      check(!pieces.isEmpty(), "group %s has no pieces; at least 1 would be right", name);
      long bytes = pieces.stream().mapToLong(Piece::bytes).sum();
      check(
          bytes >= BLOCK_BYTES_MIN && bytes <= BLOCK_BYTES_MAX,
          "group %s: a block of %d bytes; %d to %d would be right",
          name,
          bytes,
          BLOCK_BYTES_MIN,
          BLOCK_BYTES_MAX);
    }

    /** Payload bytes of one block. */
    public int blockBytes() {
      return Math.toIntExact(pieces.stream().mapToLong(Piece::bytes).sum());
    }
  }

  /**
   * What a group's layers look back at, and so which blocks make a prefix usable.
   *
   * @param windowTokens of a sliding window, 0 in the other kinds
   */
  public record Attention(Kind kind, int windowTokens) {
    /** The kinds there are. */
    public enum Kind {
      /** Every block of the prefix. */
      FULL,
      /** The blocks of the last {@code windowTokens} tokens. */
      SLIDING,
      /** The snapshot at the end of the prefix: the last block alone. */
      RECURRENT
    }

    public static final Attention FULL = new Attention(Kind.FULL, 0);
    public static final Attention RECURRENT = new Attention(Kind.RECURRENT, 0);

    public static Attention sliding(int windowTokens) {
      return new Attention(Kind.SLIDING, windowTokens);
    }

    public Attention {
      check(
          kind == Kind.SLIDING ? windowTokens > 0 : windowTokens == 0,
          "a window of %d tokens for %s attention; a sliding window needs one, the others none",
          windowTokens,
          kind);
    }
  }

  /**
   * The bytes of a block in one tensor: those of block b begin at the tensor's base + b × stride.
   *
   * @param bytes contiguous bytes of one block
   * @param stride bytes from one block to the next, at least {@code bytes}
   */
  public record Piece(long bytes, long stride) {
    public Piece {
      check(
          bytes > 0 && bytes <= BLOCK_BYTES_MAX,
          "a piece of %d bytes; 1 to %d would be right",
          bytes,
          BLOCK_BYTES_MAX);
      check(
          stride >= bytes,
          "stride %d of a piece of %d bytes; at least that would be right",
          stride,
          bytes);
    }

    public static Piece dense(long bytes) {
      return new Piece(bytes, bytes);
    }
  }

  public KvLayout {
    groups = List.copyOf(groups);
    check(
        !groups.isEmpty() && groups.size() <= GROUPS_MAX,
        "%d groups; 1 to %d would be right",
        groups.size(),
        GROUPS_MAX);
  }

  /** A layout whose sizes say it all. */
  public KvLayout(List<Group> groups) {
    this(groups, "");
  }

  /** The same bytes with another meaning. */
  public KvLayout withTag(String newTag) {
    return new KvLayout(groups, newTag);
  }

  /** One group whose blocks are one piece of {@code blockBytes} bytes each. */
  public static KvLayout ofBlockBytes(long blockBytes, int blockTokens) {
    return new KvLayout(
        List.of(new Group("blocks", blockTokens, List.of(Piece.dense(blockBytes)))));
  }

  /** One group of {@code layers} layers with a tensor each for K and for V. */
  public static KvLayout ofLayers(int layers, long bytesOfKeyOrValue, int blockTokens) {
    var pieces = new ArrayList<Piece>();
    for (int i = 0; i < 2 * layers; i++) {
      pieces.add(Piece.dense(bytesOfKeyOrValue));
    }
    return new KvLayout(List.of(new Group("attention", blockTokens, pieces)));
  }

  public Group group(int index) {
    return groups.get(index);
  }

  /**
   * 64 bits over what decides the packed form of a block: groups in order, their tokens and the
   * bytes of their pieces, and the tag. Strides and addresses are the device's affair and do not
   * count.
   */
  public long fingerprint() {
    var digest = Sha256.digest();
    for (var group : groups) {
      var bytes = ByteBuffer.allocate(2 * Integer.BYTES + group.pieces().size() * Long.BYTES);
      bytes.putInt(group.blockTokens()).putInt(group.pieces().size());
      group.pieces().forEach(piece -> bytes.putLong(piece.bytes()));
      digest.update(bytes.array());
    }
    digest.update(tag.getBytes(StandardCharsets.UTF_8));
    return ByteBuffer.wrap(digest.digest()).getLong();
  }

  private static void check(boolean right, String format, Object... values) {
    if (!right) {
      throw new IllegalArgumentException(format.formatted(values));
    }
  }
}
