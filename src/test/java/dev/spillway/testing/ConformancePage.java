package dev.spillway.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Makes docs/CONFORMANCE.md: which test shows which numbered behaviour, and how it went. A test
 * names its numbers in its own name ({@code v33…}, {@code f1…}, {@code case12…}) or behind "Shows:"
 * in the comment above it. Results come from the reports of the run before.
 */
public final class ConformancePage {
  private static final Pattern NUMBER = Pattern.compile("\\b(F|V|case)(\\d+)\\b");
  private static final Pattern IN_NAME = Pattern.compile("\\G([fFvV]|[cC]ase)(\\d+)");
  private static final Pattern JAVA_TEST =
      Pattern.compile(
          "/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*(?:@[\\w.]+(?:\\([^()]*\\))?\\s*)+void (\\w+)\\(");
  private static final Pattern JAVA_NAME = Pattern.compile("\\n  void ((?:[fv]|case)\\d\\w*)\\(");
  private static final Pattern CPP_TEST =
      Pattern.compile("((?://[^\\n]*\\n)*)TEST(?:_[FP])?\\((\\w+), (\\w+)\\)");
  private static final Pattern JAVA_RESULT =
      Pattern.compile(
          "<testcase name=\"(\\w+)[^\"]*\" classname=\"[\\w.]*?(\\w+)\"[^>]*?(?:/>|>([\\s\\S]*?)</testcase>)");
  private static final Pattern CPP_RESULT =
      Pattern.compile(
          "<testcase name=\"(\\w+)[^\"]*\"[^>]*?classname=\"(?:\\w+/)?(\\w+)[^\"]*\"[^>]*?"
              + "(?:/>|>([\\s\\S]*?)</testcase>)");

  /** What the library must show so far, as ranges of numbers. */
  private static final List<String> ASKED =
      List.of(
          "F1-F60",
          "V1-V37",
          "V47",
          "V49-V56",
          "V59-V94",
          "V100",
          "V104",
          "V117-V145",
          "V155",
          "V185-V187",
          "V189",
          "V191",
          "V193-V196",
          "V199",
          "V202-V214",
          "V216-V217",
          "V219-V226");

  /** Behaviours of an engine's own scheduler, or of metrics that come later: not ours. */
  private static final List<String> NOT_OURS = List.of("V123-V125", "V127");

  private final Map<String, List<String>> tests = new TreeMap<>(byNumber());
  private final Map<String, String> results = new HashMap<>();

  private ConformancePage() {}

  public static void main(String[] arguments) throws IOException {
    var page = new ConformancePage();
    page.readJava(Path.of("src/test/java"));
    page.readCpp(Path.of("src/test/cpp"));
    page.readResults(Path.of("target/surefire-reports"), JAVA_RESULT);
    page.readResults(Path.of("cppbuild"), CPP_RESULT);
    Files.writeString(Path.of("docs/CONFORMANCE.md"), page.text());
  }

  private static Comparator<String> byNumber() {
    return Comparator.comparing((String number) -> number.replaceAll("\\d", ""))
        .thenComparing(number -> Integer.parseInt(number.replaceAll("\\D", "")));
  }

  private static List<Path> files(Path root, String suffix) throws IOException {
    try (var files = Files.walk(root)) {
      return files.filter(file -> file.toString().endsWith(suffix)).sorted().toList();
    }
  }

  private void readJava(Path root) throws IOException {
    for (var file : files(root, "Test.java")) {
      var text = Files.readString(file);
      var suite = file.getFileName().toString().replace(".java", "");
      var commented = JAVA_TEST.matcher(text);
      while (commented.find()) {
        add(shown(commented.group(1)), suite, commented.group(2));
      }
      var named = JAVA_NAME.matcher(text);
      while (named.find()) {
        add(List.of(), suite, named.group(1));
      }
    }
  }

  private void readCpp(Path root) throws IOException {
    for (var file : files(root, ".cpp")) {
      var test = CPP_TEST.matcher(Files.readString(file));
      while (test.find()) {
        add(shown(test.group(1)), test.group(2), test.group(3));
      }
    }
  }

  private static List<String> shown(String comment) {
    int at = comment.indexOf("Shows:");
    if (at < 0) {
      return List.of();
    }
    return NUMBER.matcher(comment.substring(at)).results().map(found -> found.group()).toList();
  }

  private void add(List<String> shown, String suite, String name) {
    var numbers = new ArrayList<>(shown);
    var inName = IN_NAME.matcher(name);
    while (inName.find()) {
      var kind = inName.group(1).length() == 1 ? inName.group(1).toUpperCase(Locale.ROOT) : "case";
      numbers.add(kind + inName.group(2));
    }
    for (var number : numbers) {
      var known = tests.computeIfAbsent(number, unused -> new ArrayList<>());
      if (!known.contains(suite + "." + name)) {
        known.add(suite + "." + name);
      }
    }
  }

  private void readResults(Path root, Pattern pattern) throws IOException {
    if (!Files.isDirectory(root)) {
      return;
    }
    for (var file : files(root, ".xml")) {
      var found = pattern.matcher(Files.readString(file));
      while (found.find()) {
        var body = found.group(3) == null ? "" : found.group(3);
        var result =
            body.contains("<failure") || body.contains("<error")
                ? "failed"
                : body.contains("<skipped") ? "skipped" : "passed";
        results.merge(
            found.group(2) + "." + found.group(1), result, (one, other) -> worse(one, other));
      }
    }
  }

  private static String worse(String one, String other) {
    return Stream.of("failed", "passed", "skipped")
        .filter(result -> result.equals(one) || result.equals(other))
        .findFirst()
        .orElseThrow();
  }

  private String text() {
    var asked = expand(ASKED);
    asked.removeAll(expand(NOT_OURS));
    var missing = asked.stream().filter(number -> !tests.containsKey(number)).toList();
    var text =
        new StringBuilder(
            """
            # Behaviours and the tests that show them

            Made by `./spillway test` from the tests' names and comments and from the reports of that run; not written by hand. F: a failure or \
            race and what becomes of it. V: a behaviour that tests of comparable engines show. case: a fault that users of others met.

            """);
    text.append("%d numbers are shown. ".formatted(tests.size()));
    text.append(
        missing.isEmpty()
            ? "Of those asked for so far none is missing.\n"
            : "Asked for so far and not shown yet: " + String.join(", ", missing) + ".\n");
    text.append("\n| number | tests | result |\n| --- | --- | --- |\n");
    tests.forEach(
        (number, names) ->
            text.append(
                "| %s | %s | %s |\n"
                    .formatted(
                        number,
                        names.stream()
                            .map(name -> "`" + name + "`")
                            .collect(Collectors.joining(", ")),
                        names.stream()
                            .map(name -> results.getOrDefault(name, "not run"))
                            .distinct()
                            .collect(Collectors.joining(", ")))));
    return text.toString();
  }

  private static List<String> expand(List<String> ranges) {
    var numbers = new ArrayList<String>();
    for (var range : ranges) {
      var ends = NUMBER.matcher(range).results().toList();
      int first = Integer.parseInt(ends.get(0).group(2));
      int last = Integer.parseInt(ends.get(ends.size() - 1).group(2));
      for (int number = first; number <= last; number++) {
        numbers.add(ends.get(0).group(1) + number);
      }
    }
    return numbers;
  }
}
