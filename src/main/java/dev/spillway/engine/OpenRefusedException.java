package dev.spillway.engine;

/**
 * An engine could not be opened. The message says what was wrong, the value, and what would be
 * right.
 */
public final class OpenRefusedException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The kind of obstacle, in the order of {@code OpenReason} in {@code base/Status.h}. */
  public enum Reason {
    PATH,
    PERMISSION,
    SYMLINK,
    LOCKED,
    LAYOUT,
    SPACE,
    DIRECT_IO,
    HOST_MEMORY,
    RING,
    DEVICE,
    CONFIGURATION;

    static Reason of(int code) {
      if (code < 1 || code > values().length) {
        throw new IllegalStateException(
            "open reason " + code + " from native code; 1 to " + values().length + " are known");
      }
      return values()[code - 1];
    }
  }

  private final Reason reason;
  private final int errno;

  public OpenRefusedException(Reason reason, int errno, String message) {
    super(message);
    this.reason = reason;
    this.errno = errno;
  }

  public Reason reason() {
    return reason;
  }

  /** The kernel's error number, 0 where there was none. */
  public int errno() {
    return errno;
  }
}
