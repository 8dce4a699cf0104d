package dev.spillway.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.github.luben.zstd.Zstd;
import dev.spillway.block.BlockKey;
import dev.spillway.block.KvLayout;
import dev.spillway.testing.SpillwayFixture;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CliPartsTest {
  private static final String LINES =
      """
      {"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}

      {"timestamp": 30.5, "input_length": 512, "output_length": 5, "hash_ids": [0]}
      """;

  @TempDir private Path directory;

  private Path write(byte[] bytes) throws IOException {
    return Files.write(directory.resolve("trace"), bytes);
  }

  private static byte[] gzip(byte[] bytes) throws IOException {
    var out = new ByteArrayOutputStream();
    try (var gzip = new GZIPOutputStream(out)) {
      gzip.write(bytes);
    }
    return out.toByteArray();
  }

  @Test
  void readsMooncakeLinesPlainGzipAndZstd() throws IOException {
    var plain = LINES.getBytes(StandardCharsets.UTF_8);
    for (var bytes : List.of(plain, gzip(plain), Zstd.compress(plain))) {
      var requests = TraceFile.read(write(bytes), 10);
      assertThat(requests).hasSize(2);
      assertThat(requests.get(0).blockIds()).containsExactly(0, 1);
      assertThat(requests.get(1).inputTokens()).isEqualTo(512);
    }
    assertThat(TraceFile.read(write(plain), 1)).hasSize(1);
  }

  @Test
  void readsAnAgenticSessionWithItsSubagentsInOrderOfTime() throws IOException {
    var session =
        """
        {"id": "s1", "block_size": 64, "hash_id_scope": "local", "requests": [
          {"t": 5.0, "in": 130, "out": 3, "hash_ids": [1, 2]},
          {"type": "subagent", "requests": [{"t": 1.5, "in": 64, "out": 1, "hash_ids": [9]}]}
        ]}
        """;
    var requests = TraceFile.read(write(session.getBytes(StandardCharsets.UTF_8)), 10);
    assertThat(requests).hasSize(2);
    assertThat(requests.get(0).blockIds()).containsExactly(9);
    assertThat(requests.get(0).millis()).isEqualTo(1500);
    assertThat(requests.get(1).inputTokens()).isEqualTo(130);
  }

  @Test
  void whatIsNoTraceIsRefusedByFileAndLine() throws IOException {
    var missing = write("{\"timestamp\": 1}\n".getBytes(StandardCharsets.UTF_8));
    assertThatThrownBy(() -> TraceFile.read(missing, 10))
        .hasMessage(missing + ", line 1: a request needs hash_ids and input_length");
    var broken = write((LINES + "{oops\n").getBytes(StandardCharsets.UTF_8));
    assertThatThrownBy(() -> TraceFile.read(broken, 10))
        .hasMessageContaining("line 4 is no JSON object");
    for (var bad :
        List.of(
            "{\"input_length\": \"abc\", \"hash_ids\": [1]}",
            "{\"input_length\": -1, \"hash_ids\": [1]}",
            "{\"input_length\": 5, \"hash_ids\": \"xx\"}",
            "{\"input_length\": 5, \"hash_ids\": [1.5]}",
            "{\"input_length\": 99999999999, \"hash_ids\": [1]}")) {
      var file = write(bad.getBytes(StandardCharsets.UTF_8));
      assertThatThrownBy(() -> TraceFile.read(file, 10))
          .isInstanceOf(IOException.class)
          .hasMessageContaining(file + ", line 1:")
          .hasMessageContaining("would be right");
    }
    var empty = write(new byte[0]);
    assertThatThrownBy(() -> TraceFile.read(empty, 10)).hasMessageContaining("holds no requests");
  }

  @ParameterizedTest
  @CsvSource({"262144,262144", "256KiB,262144", "2GiB,2147483648", "1.5GB,1500000000", "4k,4096"})
  void readsSizes(String text, long bytes) {
    assertThat(new Bytes().convert(text)).isEqualTo(bytes);
  }

  @Test
  void refusesWhatIsNoSize() {
    for (var text : List.of("", "lots", "-1", "0", "1.5.2", "3 parsecs")) {
      assertThatThrownBy(() -> new Bytes().convert(text)).hasMessageContaining("is no size");
    }
    assertThat(Bytes.format(1536)).isEqualTo("1.50 KiB");
    assertThat(Bytes.format(999)).isEqualTo("999 B");
  }

  /** Sums over all layers, from the table of published geometries. */
  @ParameterizedTest
  @CsvSource({
    "llama-3.1-8b,2097152",
    "llama-3.1-8b-tp8,262144",
    "llama-3.1-70b-tp8-fp8,327680",
    "qwen3-30b-a3b-tp8,393216",
    "gpt-oss-20b-tp8-fp8,49152",
    "gpt-oss-120b,1179648",
    "gemma-3-27b-fp8,4063232",
    "deepseek-v3,1124352",
    "deepseek-v3-fp8,562176",
    "deepseek-v3-fp8-scales,640256"
  })
  void modelsHaveTheirPublishedBlockBytes(String model, int bytes) {
    assertThat(ModelGeometry.of(model).group(0).blockBytes()).isEqualTo(bytes);
  }

  @Test
  void aHybridModelHasAGroupForItsState() {
    var layout = ModelGeometry.of("nemotron-h-8b-tp4");
    assertThat(layout.group(1).blockBytes()).isEqualTo(24 * 539_648);
    assertThat(layout.group(0).blockBytes()).isEqualTo(4 * 16_384 * 528 / 16);
    assertThat(layout.groups()).extracting(KvLayout.Group::blockTokens).containsOnly(528);
    assertThatThrownBy(() -> ModelGeometry.of("llama-3.1-8b-fp8-scales"))
        .hasMessageContaining("no model");
    assertThatThrownBy(() -> ModelGeometry.of("llama-3.1-8b-tp99"))
        .hasMessage("99 ranks; 1 to 64 would be right");
  }

  @Test
  void thePoolEvictsTheEndOfAPrefixFirstAndNeverWhatIsPinned() {
    var pool = new DevicePool(4);
    var keys = List.of(new BlockKey(0, 1), new BlockKey(0, 2), new BlockKey(0, 3));
    var first = new int[3];
    pool.promise(keys, 0);
    assertThat(pool.isPromised(keys.get(2))).isTrue();
    assertThat(pool.take(first, 0)).isTrue();
    for (int i = 0; i < 3; i++) {
      pool.publish(keys.get(i), first[i]);
    }
    assertThat(pool.take(new int[2], 0)).as("only one block is left").isFalse();
    pool.unpin(first, 3);
    var second = new int[2];
    assertThat(pool.take(second, 0)).isTrue();
    var found = new int[3];
    assertThat(pool.pinPrefix(keys, found)).as("the last block gave way").isEqualTo(2);
    pool.unpin(found, 2);
    pool.unpin(second, 2);
    assertThat(pool.isQuiet()).isTrue();
  }

  @Test
  void progressIsLinesWithoutATerminalAndABarWithOne() {
    var out = new ByteArrayOutputStream();
    var clock = new long[] {0};
    for (boolean terminal : new boolean[] {false, true}) {
      clock[0] = 0;
      var line =
          new ProgressLine(
              new java.io.PrintStream(out, true, StandardCharsets.UTF_8),
              terminal,
              10,
              () -> clock[0]);
      assertThat(line.isDue()).isFalse();
      clock[0] = 6_000_000_000L;
      assertThat(line.isDue()).isTrue();
      try (var test = SpillwayFixture.small(directory.resolve("progress" + terminal))) {
        var tally = new ReplayTally();
        tally.requests = 1;
        tally.served(new Request(0, 64, new long[] {1, 2}), 1, 0, 32);
        test.store(1, 0, 8);
        out.reset();
        line.show(tally, test.spillway.stats());
        assertThat(out.toString(StandardCharsets.UTF_8))
            .startsWith(terminal ? "\r\033[K[##......" : "1/10 requests")
            .contains("hits 0.500")
            .contains("ETA 0:54");
      }
    }
  }
}
