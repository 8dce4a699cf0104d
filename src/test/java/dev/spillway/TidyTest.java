package dev.spillway;

import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The rooms hold: which may know which, in Java and in C++, and how thin the face is. */
class TidyTest {
  private static final String ROOT = "dev.spillway";

  /** Room → rooms it may know. The face, "", may know all. */
  private static final Map<String, Set<String>> JAVA_ARROWS =
      Map.of(
          "block", Set.of(),
          "policy", Set.of("block"),
          "index", Set.of("policy", "block"),
          "rank", Set.of("block"),
          "ledger", Set.of("index", "rank", "policy", "block"),
          "worker", Set.of("engine", "block"),
          "engine", Set.of("block"),
          "device", Set.of("block", "engine"));

  private static final Map<String, Set<String>> CPP_ARROWS =
      Map.of(
          "base", Set.of("base"),
          "device", Set.of("base", "device"),
          "staging", Set.of("base", "staging"),
          "disk", Set.of("base", "disk"),
          "lane", Set.of("base", "device", "staging", "disk", "lane"));

  private static final JavaClasses CLASSES =
      new ClassFileImporter()
          .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
          .importPackages(ROOT);

  private static String room(JavaClass type) {
    var name = type.getPackageName();
    return name.equals(ROOT) ? "" : name.substring(ROOT.length() + 1);
  }

  @Test
  void everyJavaArrowIsOneOfThoseInTheArchitecture() {
    var wrong = new ArrayList<String>();
    for (var type : CLASSES) {
      var allowed = JAVA_ARROWS.get(room(type));
      if (allowed == null) {
        continue; // the face and the command line
      }
      for (var dependency : type.getDirectDependenciesFromSelf()) {
        var target = dependency.getTargetClass();
        if (target.getPackageName().startsWith(ROOT)
            && !room(target).equals(room(type))
            && !allowed.contains(room(target))) {
          wrong.add(type.getSimpleName() + " → " + target.getName());
        }
      }
    }
    assertThat(wrong).isEmpty();
  }

  @Test
  void theCommandLineUsesTheFaceAndTheValuesItHandsOut() {
    var internal = Set.of("ledger", "rank", "worker");
    for (var type : CLASSES) {
      if (room(type).equals("cli")) {
        assertThat(
                type.getDirectDependenciesFromSelf().stream()
                    .map(dependency -> dependency.getTargetClass())
                    .filter(target -> target.getPackageName().startsWith(ROOT))
                    .map(TidyTest::room))
            .as(type.getName())
            .doesNotContainAnyElementsOf(internal);
      }
    }
  }

  @Test
  void onlyTheEngineRoomKnowsJavaCpp() {
    for (var type : CLASSES) {
      boolean knows =
          type.getDirectDependenciesFromSelf().stream()
              .anyMatch(
                  dependency ->
                      dependency.getTargetClass().getPackageName().startsWith("org.bytedeco"));
      assertThat(!knows || room(type).equals("engine")).as(type.getName()).isTrue();
    }
  }

  /** Types that a user of the library can name: the face and the values it takes and gives. */
  @Test
  void theFaceIsThin() {
    var exported = Set.of("", "block", "policy", "device");
    var names =
        CLASSES.stream()
            .filter(type -> exported.contains(room(type)))
            .filter(type -> type.getModifiers().contains(JavaModifier.PUBLIC))
            .filter(type -> type.getEnclosingClass().isEmpty())
            .filter(type -> !type.getSimpleName().equals("package-info"))
            .map(JavaClass::getSimpleName)
            .collect(Collectors.toSet());
    assertThat(names).hasSizeLessThanOrEqualTo(28);
  }

  @Test
  void everyCppIncludeIsOneOfThoseInTheArchitecture() throws IOException {
    var include = Pattern.compile("#include \"([a-z]+)/");
    var wrong = new ArrayList<String>();
    for (var file : cppSources()) {
      var allowed = CPP_ARROWS.get(file.getName(file.getNameCount() - 2).toString());
      if (allowed == null) {
        continue; // KvEngine, which puts the rooms together
      }
      for (var line : Files.readAllLines(file)) {
        var match = include.matcher(line);
        if (match.find() && !allowed.contains(match.group(1))) {
          wrong.add(file.getFileName() + " → " + match.group(1));
        }
      }
    }
    assertThat(wrong).isEmpty();
  }

  @Test
  void foreignLibrariesStayInTheirFiles() throws IOException {
    var homes =
        Map.of(
            "<liburing.h>", Set.of("UringRing.h", "UringRing.cpp"),
            "<xxhash.h>", Set.of("ChecksumAvx2.cpp", "ChecksumBaseline.cpp"),
            "<cuda_runtime_api.h>", Set.of("CudaSignatures.cpp"),
            "<dlfcn.h>", Set.of("CudaRuntime.cpp", "BlockCipher.cpp"));
    var found = new HashMap<String, List<String>>();
    for (var file : cppSources()) {
      for (var line : Files.readAllLines(file)) {
        for (var library : homes.keySet()) {
          if (line.contains(library) && !homes.get(library).contains(name(file))) {
            found.computeIfAbsent(library, unused -> new ArrayList<>()).add(name(file));
          }
        }
      }
    }
    assertThat(found).isEmpty();
  }

  /** Errno is read in the disk room; elsewhere only where a call of base or staging fails. */
  @Test
  void lanesAndCopiersKnowNoErrno() throws IOException {
    for (var file : cppSources()) {
      var room = file.getName(file.getNameCount() - 2).toString();
      if (room.equals("lane") || room.equals("device")) {
        assertThat(Files.readString(file)).as(name(file)).doesNotContain("errno");
      }
    }
  }

  private static String name(Path file) {
    return file.getFileName().toString();
  }

  private static List<Path> cppSources() throws IOException {
    try (var files = Files.walk(Path.of("src/main/cpp"))) {
      return files.filter(Files::isRegularFile).toList();
    }
  }
}
