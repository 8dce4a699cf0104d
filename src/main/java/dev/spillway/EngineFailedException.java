package dev.spillway;

/**
 * Device, event, stream or ring of a rank has failed; the first cause is the message. What was in
 * flight has ended as {@code ENGINE_FAILED}. Close and open again.
 */
public final class EngineFailedException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  EngineFailedException(String cause) {
    super(cause);
  }
}
