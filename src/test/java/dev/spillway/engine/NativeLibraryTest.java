package dev.spillway.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.spillway.testing.Commands;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeLibraryTest {
  /** What child JVMs run: loads, loads again after a failure, and says how it went. */
  static final class LoadAndSay {
    public static void main(String[] args) {
      for (int attempt = 0; attempt < 2; attempt++) {
        try {
          System.out.println("loaded " + NativeEngine.checksum(0, 0, 0));
        } catch (UnsatisfiedLinkError e) {
          System.out.println(e.getMessage());
        }
      }
    }
  }

  private static Path bundled() {
    return Path.of(System.getProperty("spillway.native.folder"), "libjniKvEngineNative.so");
  }

  @Test
  void case89ANoexecCacheIsNamedWithThePropertyToSet(@TempDir Path root) throws IOException {
    assumeTrue(Commands.isRoot(), "mounting needs root");
    var noexec = Files.createDirectory(root.resolve("noexec"));
    var mounted = Commands.run("mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", noexec.toString());
    assumeTrue(mounted.code() == 0, "mount is not permitted: " + mounted.text());
    try {
      var output =
          Commands.run(Commands.java(List.of("-Dspillway.cache.dir=" + noexec), LoadAndSay.class));
      assertThat(output.text())
          .contains(noexec.toString())
          .contains("mounted noexec; set -Dspillway.cache.dir");
      var lines = output.text().lines().filter(line -> line.startsWith("Spillway's")).toList();
      assertThat(lines).as("the second try says the same").hasSize(2);
      assertThat(lines.get(0)).isEqualTo(lines.get(1));
    } finally {
      Commands.run("umount", noexec.toString());
    }
  }

  @Test
  void case89WithoutAPropertyASecondPlaceIsTried(@TempDir Path root) throws IOException {
    var blocked = Files.createFile(root.resolve("home"));
    var temporary = Files.createDirectory(root.resolve("tmp"));
    var output =
        Commands.run(
            Commands.java(
                List.of("-Duser.home=" + blocked, "-Djava.io.tmpdir=" + temporary),
                LoadAndSay.class));
    assertThat(output.text()).contains("cannot be written").contains("loaded");
  }

  @Test
  void case90MuslAndOldLibrariesAreNamed() {
    var file = Path.of("/cache/x/lib.so");
    assertThat(NativeLibrary.explain("symbol not found", file, true)).contains("needs glibc");
    assertThat(NativeLibrary.explain("version `GLIBC_2.34' not found", file, false))
        .contains("too old")
        .contains("GLIBC_2.34");
    assertThat(NativeLibrary.explain("no such file", file, false)).contains("no such file");
  }

  @Test
  void otherPlatformsAreRefusedByName() {
    assertThat(NativeLibrary.platform("Linux", "amd64")).isEqualTo("linux-x86_64");
    assertThat(NativeLibrary.platform("Linux", "aarch64")).isEqualTo("linux-arm64");
    assertThatThrownBy(() -> NativeLibrary.platform("Mac OS X", "aarch64"))
        .hasMessageContaining("there is no build for Mac OS X on aarch64");
  }

  /** Highest versions by glibc 2.34 and GCC 12: Ubuntu 22.04, RHEL 9, Debian 12. */
  @Test
  void case91TheLibraryNeedsNoMoreThanTheStatedFloor() {
    var symbols = Commands.run("objdump", "-T", bundled().toString());
    assumeTrue(symbols.code() == 0, "objdump is not installed");
    assertThat(highest(symbols.text(), "GLIBC_2.")).isLessThanOrEqualTo(34);
    assertThat(highest(symbols.text(), "GLIBCXX_3.4.")).isLessThanOrEqualTo(30);
    var dynamic = Commands.run("objdump", "-p", bundled().toString()).text();
    assertThat(dynamic).doesNotContain("liburing").doesNotContain("cuda").contains("$ORIGIN/");
    assertThat(dynamic).as("the build folder's path").doesNotContain("cppbuild");
  }

  private static int highest(String text, String prefix) {
    int highest = 0;
    for (int at = text.indexOf(prefix); at >= 0; at = text.indexOf(prefix, at + 1)) {
      int end = at + prefix.length();
      while (end < text.length() && Character.isDigit(text.charAt(end))) {
        end++;
      }
      highest = Math.max(highest, Integer.parseInt(text.substring(at + prefix.length(), end)));
    }
    return highest;
  }

  @Test
  void case93JvmsThatStartTogetherAllLoad(@TempDir Path root) throws Exception {
    for (int round = 0; round < 20; round++) {
      var cache = root.resolve("cache" + round);
      var processes = new ArrayList<Process>();
      for (int i = 0; i < 8; i++) {
        var command =
            Commands.java(
                List.of("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Dspillway.cache.dir=" + cache),
                LoadAndSay.class);
        processes.add(new ProcessBuilder(command).redirectErrorStream(true).start());
      }
      for (var process : processes) {
        var text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(text).contains("loaded");
        assertThat(process.waitFor()).isZero();
      }
    }
  }

  @Test
  void case94AnotherVersionGoesToAnotherFolderAndTheFileInUseStays(@TempDir Path cache)
      throws IOException {
    var first = NativeLibrary.unpack(new byte[] {1}, cache);
    Object inUse = Files.getAttribute(first, "unix:ino");
    var second = NativeLibrary.unpack(new byte[] {2}, cache);
    assertThat(second).isNotEqualTo(first);
    assertThat(NativeLibrary.unpack(new byte[] {1}, cache)).isEqualTo(first);
    assertThat(Files.getAttribute(first, "unix:ino")).isEqualTo(inUse);
    try (var files = Files.list(first.getParent())) {
      assertThat(files).as("no partial file is left").hasSize(1);
    }
  }

  @Test
  void aTruncatedFileIsReplacedByARename(@TempDir Path cache) throws IOException {
    var file = NativeLibrary.unpack(new byte[] {1, 2, 3}, cache);
    Object before = Files.getAttribute(file, "unix:ino");
    Files.write(file, new byte[] {1});
    NativeLibrary.unpack(new byte[] {1, 2, 3}, cache);
    assertThat(Files.readAllBytes(file)).containsExactly(1, 2, 3);
    assertThat(Files.getAttribute(file, "unix:ino")).isNotEqualTo(before);
  }
}
