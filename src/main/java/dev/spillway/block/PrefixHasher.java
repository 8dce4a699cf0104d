package dev.spillway.block;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/**
 * Hashes a prompt's token ids into the chained keys of its blocks: the key of a block covers its
 * own tokens, all before them, a salt and an adapter. SHA-256, of which 128 bits are kept; the same
 * in every process and on every machine. Not thread-safe.
 */
public final class PrefixHasher {
  private final MessageDigest digest = Sha256.digest();
  private final byte[] root;
  private final long tenant;

  /**
   * @param salt separates tenants or anything else that must not share blocks; may be empty
   * @param adapterId names the adapter that changes the KV bytes; empty for none
   */
  public PrefixHasher(String salt, String adapterId) {
    updateText(salt);
    updateText(adapterId);
    root = digest.digest();
    tenant = tenantOf(salt);
  }

  /**
   * The tag under which all blocks of a salt can be forgotten together.
   *
   * @return 0 for the empty salt, which is nobody's
   */
  public static long tenantOf(String salt) {
    if (salt.isEmpty()) {
      return 0;
    }
    var bytes = Sha256.digest().digest(("tenant\0" + salt).getBytes(StandardCharsets.UTF_8));
    return ByteBuffer.wrap(bytes).getLong() | 1;
  }

  /**
   * The keys of all full blocks of a prompt. A last block of fewer than {@code blockTokens} tokens
   * has no key.
   *
   * @param tokens the prompt's token ids
   * @param blockTokens tokens a block
   */
  public BlockKeys hash(int[] tokens, int blockTokens) {
    if (blockTokens <= 0) {
      throw new IllegalArgumentException(
          "blockTokens is " + blockTokens + "; at least 1 would be right");
    }
    var keys = new BlockKeys().ofTenant(tenant);
    byte[] parent = root;
    for (int from = 0; from + blockTokens <= tokens.length; from += blockTokens) {
      parent = child(parent, tokens, from, from + blockTokens);
      var words = ByteBuffer.wrap(parent);
      keys.add(words.getLong(), words.getLong());
    }
    return keys;
  }

  private byte[] child(byte[] parent, int[] tokens, int from, int to) {
    var bytes = ByteBuffer.allocate((to - from) * Integer.BYTES);
    for (int i = from; i < to; i++) {
      bytes.putInt(tokens[i]);
    }
    digest.update(parent);
    return digest.digest(bytes.array());
  }

  /** Length first, so that no two pairs of texts give the same bytes. */
  private void updateText(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    digest.update(ByteBuffer.allocate(Integer.BYTES).putInt(bytes.length).array());
    digest.update(bytes);
  }
}
