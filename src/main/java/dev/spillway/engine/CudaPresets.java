package dev.spillway.engine;

import org.bytedeco.javacpp.Loader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the JavaCPP presets have put the CUDA runtime, if they are on the class path. They need the
 * driver's library; where that is missing, nothing of theirs is used.
 */
final class CudaPresets {
  private static final Logger LOG = LoggerFactory.getLogger(CudaPresets.class);
  private static final String CUDART = "org.bytedeco.cuda.global.cudart";

  private CudaPresets() {}

  /**
   * Loads the presets' runtime, which is then found as one that the process has already.
   *
   * @return its path where the system property {@code spillway.cuda.library} gives one, else empty
   */
  static String library() {
    var given = System.getProperty("spillway.cuda.library", "");
    if (given.isEmpty()) {
      load();
    }
    return given;
  }

  private static void load() {
    try {
      Loader.load(Class.forName(CUDART, false, CudaPresets.class.getClassLoader()));
    } catch (ClassNotFoundException e) {
      LOG.debug("the CUDA presets are not on the class path");
    } catch (LinkageError e) {
      LOG.debug("the CUDA presets cannot be loaded: {}", String.valueOf(e.getMessage()));
    }
  }
}
