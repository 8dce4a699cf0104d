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
   * The path of the CUDA runtime as native code takes it: what the caller gave, else what the
   * system property {@code spillway.cuda.library} gives, else empty, to look for one; then the
   * presets' runtime, where there is one, has been loaded and is found.
   */
  static byte[] library(String given) {
    var path = given.isEmpty() ? System.getProperty("spillway.cuda.library", "") : given;
    if (path.isEmpty()) {
      load();
    }
    return NativeEngine.terminated(path, NativeEngine.fileNameCharset());
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
