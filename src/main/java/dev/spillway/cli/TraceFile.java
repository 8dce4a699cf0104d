package dev.spillway.cli;

import com.github.luben.zstd.ZstdInputStream;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PushbackReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.zip.GZIPInputStream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Reads request traces: Mooncake's (a JSON object a line) and agentic sessions (one JSON object),
 * plain, gzip or zstd. The format is told from the content, not from the name.
 */
final class TraceFile {
  private static final JsonMapper JSON = new JsonMapper();
  private static final long TOKENS_MAX = 1L << 30;
  private static final int[] GZIP = {0x1f, 0x8b};
  private static final int[] ZSTD = {0x28, 0xb5, 0x2f, 0xfd};

  private TraceFile() {}

  /**
   * The first {@code limit} requests.
   *
   * @throws IOException where the file cannot be read or holds no requests, with file and line
   */
  static List<Request> read(Path file, int limit) throws IOException {
    try (var in = new BufferedInputStream(Files.newInputStream(file));
        var text = new InputStreamReader(decompressed(in), StandardCharsets.UTF_8);
        var reader = new BufferedReader(text)) {
      var requests = isSession(reader) ? session(file, reader) : lines(file, reader, limit);
      if (requests.isEmpty()) {
        throw new IOException(file + " holds no requests");
      }
      return requests.size() > limit ? requests.subList(0, limit) : requests;
    }
  }

  private static InputStream decompressed(BufferedInputStream in) throws IOException {
    if (beginsWith(in, GZIP)) {
      return new GZIPInputStream(in);
    }
    return beginsWith(in, ZSTD) ? new ZstdInputStream(in) : in;
  }

  private static boolean beginsWith(BufferedInputStream in, int[] magic) throws IOException {
    in.mark(magic.length);
    boolean same = true;
    for (int expected : magic) {
      same &= in.read() == expected;
    }
    in.reset();
    return same;
  }

  /** A session says {@code "requests": [}; a line of the other format never does. */
  private static boolean isSession(BufferedReader reader) throws IOException {
    reader.mark(1 << 20);
    var head = new char[4096];
    int count = Math.max(0, reader.read(head));
    reader.reset();
    var text = new String(head, 0, count);
    return text.contains("\"block_size\"") || text.contains("\"requests\"");
  }

  private static List<Request> lines(Path file, BufferedReader reader, int limit)
      throws IOException {
    var requests = new ArrayList<Request>();
    int number = 0;
    for (var line = reader.readLine();
        line != null && requests.size() < limit;
        line = reader.readLine()) {
      number++;
      if (!line.isBlank()) {
        requests.add(request(parse(file, number, line), file, number));
      }
    }
    return requests;
  }

  private static Request request(JsonNode node, Path file, int line) throws IOException {
    var ids = node.get("hash_ids");
    var input = node.get("input_length");
    if (ids == null || input == null) {
      throw new IOException(
          "%s, line %d: a request needs hash_ids and input_length".formatted(file, line));
    }
    var timestamp = node.path("timestamp");
    long millis = timestamp.isNumber() ? Math.round(timestamp.asDouble()) : 0;
    return request(millis, input, ids, file, line);
  }

  /** A session with its sub-agents' requests, in order of time. */
  private static List<Request> session(Path file, BufferedReader reader) throws IOException {
    var text = new StringBuilder();
    var buffer = new char[65536];
    try (var whole = new PushbackReader(reader)) {
      for (int count = whole.read(buffer); count > 0; count = whole.read(buffer)) {
        text.append(buffer, 0, count);
      }
    }
    var requests = new ArrayList<Request>();
    addNested(parse(file, 1, text.toString()), requests, file);
    requests.sort(Comparator.comparingLong(Request::millis));
    return requests;
  }

  private static void addNested(JsonNode node, List<Request> requests, Path file)
      throws IOException {
    var nested = node.get("requests");
    if (nested == null) {
      return;
    }
    for (var entry : nested) {
      var ids = entry.get("hash_ids");
      if (ids != null) {
        long millis = Math.round(entry.path("t").asDouble(0) * 1000);
        requests.add(request(millis, entry.path("in"), ids, file, 1));
      }
      addNested(entry, requests, file);
    }
  }

  private static Request request(long millis, JsonNode tokens, JsonNode array, Path file, int line)
      throws IOException {
    if (!tokens.canConvertToLong() || tokens.asLong() < 0 || tokens.asLong() > TOKENS_MAX) {
      throw new IOException(
          "%s, line %d: %s tokens of input; 0 to %d would be right"
              .formatted(file, line, tokens, TOKENS_MAX));
    }
    if (!array.isArray() || array.isEmpty()) {
      throw new IOException(
          "%s, line %d: hash_ids is %s; an array of block numbers would be right"
              .formatted(file, line, array));
    }
    var ids = new long[array.size()];
    for (int i = 0; i < ids.length; i++) {
      var id = array.get(i);
      if (!id.isIntegralNumber() || !id.canConvertToLong()) {
        throw new IOException(
            "%s, line %d: %s in hash_ids; whole numbers would be right".formatted(file, line, id));
      }
      ids[i] = id.asLong();
    }
    return new Request(millis, tokens.asLong(), ids);
  }

  private static JsonNode parse(Path file, int line, String text) throws IOException {
    try {
      return JSON.readTree(text);
    } catch (JacksonException e) {
      throw new IOException(
          "%s, line %d is no JSON object, or more than one: %s"
              .formatted(file, line, e.getOriginalMessage()),
          e);
    }
  }
}
