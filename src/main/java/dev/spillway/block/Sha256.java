package dev.spillway.block;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** The hash behind keys and fingerprints: the same in every process and on every machine. */
final class Sha256 {
  private Sha256() {}

  static MessageDigest digest() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
