package dev.spillway.engine;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Unpacks the bundled native library and loads it, once a process. The folder is named after the
 * content and the file is put in place by a rename, so that neither JVMs that start together nor
 * another version can disturb a library in use. What goes wrong is said once, with its cause and
 * the property to set, and again, the same, at every later try.
 */
final class NativeLibrary {
  /** A library file to load instead of the bundled one. */
  static final String PATH_PROPERTY = "spillway.library.path";

  /** Where the bundled library is unpacked; must allow execution. */
  static final String CACHE_PROPERTY = "spillway.cache.dir";

  private static final Logger LOG = LoggerFactory.getLogger(NativeLibrary.class);
  private static final String FILE = "libjniKvEngineNative.so";
  private static final int STICKY = 01000;
  private static final int GROUP_WRITE = 020;
  private static final int OTHERS_WRITE = 02;

  private static @Nullable String failure;
  private static boolean loaded;

  private NativeLibrary() {}

  static synchronized void load() {
    if (failure != null) {
      throw new UnsatisfiedLinkError(failure);
    }
    if (loaded) {
      return;
    }
    try {
      loadOnce();
      loaded = true;
    } catch (UnsatisfiedLinkError e) {
      failure = e.getMessage();
      throw e;
    }
  }

  private static void loadOnce() {
    var given = System.getProperty(PATH_PROPERTY);
    if (given != null) {
      loadFile(Path.of(given));
      return;
    }
    var platform = platform(System.getProperty("os.name", ""), System.getProperty("os.arch", ""));
    var content = readBundled(platform);
    var failures = new ArrayList<UnsatisfiedLinkError>();
    for (var cache : cacheDirectories()) {
      try {
        loadFile(unpack(content, cache));
        return;
      } catch (IOException e) {
        failures.add(failure(cache + " cannot be written (" + e + ")", e));
      } catch (UnsatisfiedLinkError e) {
        failures.add(e);
      }
      LOG.warn("{}", failures.get(failures.size() - 1).getMessage());
    }
    throw failures.get(0); // that of the place which was meant
  }

  /** The name of the platform as JavaCPP writes it, or a failure that says which there are. */
  static String platform(String os, String arch) {
    var known = os.toLowerCase(Locale.ROOT).contains("linux");
    if (known && (arch.equals("amd64") || arch.equals("x86_64"))) {
      return "linux-x86_64";
    }
    if (known && (arch.equals("aarch64") || arch.equals("arm64"))) {
      return "linux-arm64";
    }
    throw failure("there is no build for " + os + " on " + arch, null);
  }

  private static byte[] readBundled(String platform) {
    var resource = "/dev/spillway/" + platform + "/" + FILE;
    try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw failure(
            "the class path has no " + resource + "; add the JAR with classifier " + platform,
            null);
      }
      return in.readAllBytes();
    } catch (IOException e) {
      throw failure("cannot read " + resource, e);
    }
  }

  /** The places to unpack into, best first: the one given, or the user's cache, then temporary. */
  private static List<Path> cacheDirectories() {
    var given = System.getProperty(CACHE_PROPERTY);
    if (given != null) {
      return List.of(Path.of(given));
    }
    var directories = new ArrayList<Path>();
    var home = System.getProperty("user.home", "");
    var xdg = System.getenv("XDG_CACHE_HOME");
    if (xdg != null && !xdg.isEmpty()) {
      directories.add(Path.of(xdg, "spillway"));
    } else if (!home.isEmpty() && !home.equals("?")) {
      directories.add(Path.of(home, ".cache", "spillway"));
    }
    var user = System.getProperty("user.name", "user");
    directories.add(Path.of(System.getProperty("java.io.tmpdir", "/tmp"), "spillway-" + user));
    return directories;
  }

  /** Puts the library into a folder named after its content, unless it is there already. */
  static Path unpack(byte[] content, Path cache) throws IOException {
    var directory = cache.resolve(digest(content).substring(0, 16));
    Files.createDirectories(
        directory,
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    checkOurs(cache, directory);
    var target = directory.resolve(FILE);
    if (Files.exists(target) && digest(Files.readAllBytes(target)).equals(digest(content))) {
      return target;
    }
    var partial = Files.createTempFile(directory, FILE, ".partial");
    try {
      Files.write(partial, content);
      Files.move(partial, target, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(partial);
    }
    return target;
  }

  /**
   * Whoever can replace the library can run code as this user: its folder must be the user's alone,
   * and the one above must not let others rename it.
   */
  private static void checkOurs(Path cache, Path directory) throws IOException {
    var probe = Files.createTempFile(directory, "owner", ".probe");
    var user = Files.getOwner(probe);
    Files.delete(probe);
    int cacheMode = (Integer) Files.getAttribute(cache, "unix:mode");
    int mode = (Integer) Files.getAttribute(directory, "unix:mode", LinkOption.NOFOLLOW_LINKS);
    boolean renamable = (cacheMode & OTHERS_WRITE) != 0 && (cacheMode & STICKY) == 0;
    boolean writable = (mode & (GROUP_WRITE | OTHERS_WRITE)) != 0;
    if (renamable
        || writable
        || !Files.isDirectory(directory, LinkOption.NOFOLLOW_LINKS)
        || !Files.getOwner(directory, LinkOption.NOFOLLOW_LINKS).equals(user)) {
      throw new IOException(directory + " is not this user's alone");
    }
  }

  private static void loadFile(Path file) {
    try {
      System.load(file.toAbsolutePath().toString());
    } catch (UnsatisfiedLinkError e) {
      throw failure(explain(String.valueOf(e.getMessage()), file, runsOnMusl()), e);
    }
  }

  /** What a loader's message means, in words that say what to change. */
  static String explain(String message, Path file, boolean musl) {
    var directory = file.toAbsolutePath().getParent();
    if (musl) {
      return "this system uses musl; the library needs glibc (run on a glibc distribution)";
    }
    if (message.contains("failed to map segment")) {
      return directory
          + " lies on a file system mounted noexec; set -D"
          + CACHE_PROPERTY
          + " to a directory that allows execution";
    }
    if (message.contains("GLIBC_") || message.contains("GLIBCXX_")) {
      return "this system's C or C++ library is too old (" + message + "); glibc 2.34 is needed";
    }
    return "loading " + file + ": " + message;
  }

  private static boolean runsOnMusl() {
    try {
      return Files.readString(Path.of("/proc/self/maps")).contains("ld-musl");
    } catch (IOException e) {
      return false; // without the answer the loader's own message stands
    }
  }

  private static UnsatisfiedLinkError failure(String reason, @Nullable Throwable cause) {
    var error =
        new UnsatisfiedLinkError(
            "Spillway's native library cannot be loaded: "
                + reason
                + " [-D"
                + PATH_PROPERTY
                + " names a library file, -D"
                + CACHE_PROPERTY
                + " where the bundled one is unpacked]");
    error.initCause(cause);
    return error;
  }

  private static String digest(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
