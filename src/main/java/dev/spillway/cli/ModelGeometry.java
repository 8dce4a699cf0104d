package dev.spillway.cli;

import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/**
 * Block geometry of well-known models, for the replay only: a scheduler takes shapes from its
 * model, never from a table. A name is {@code MODEL[-tpN][-fp8]}, for DeepSeek-V3 also {@code
 * -fp8-scales}; one rank's share is taken.
 */
final class ModelGeometry {
  private static final int BLOCK_TOKENS = 16;
  private static final Pattern NAME =
      Pattern.compile("(?<model>.+?)(-tp(?<ranks>\\d{1,4}))?(?<format>-fp8(-scales)?)?");

  /** Grouped-query attention with a tensor for K and one for V in each layer. */
  private record Attention(String name, int layers, int kvHeads, int headDim) {}

  private static final List<Attention> ATTENTION =
      List.of(
          new Attention("llama-3.1-8b", 32, 8, 128),
          new Attention("llama-3.1-70b", 80, 8, 128),
          new Attention("mistral-7b", 32, 8, 128),
          new Attention("mistral-small-24b", 40, 8, 128),
          new Attention("qwen3-8b", 36, 8, 128),
          new Attention("qwen3-32b", 64, 8, 128),
          new Attention("qwen3-30b-a3b", 48, 4, 128),
          new Attention("gpt-oss-20b", 24, 8, 64),
          new Attention("gpt-oss-120b", 36, 8, 64),
          new Attention("gemma-3-27b", 62, 16, 128));

  private static final String MLA = "deepseek-v3";
  private static final int MLA_LAYERS = 61;

  private static final String HYBRID = "nemotron-h-8b";
  private static final int HYBRID_BLOCK_TOKENS = 528;
  private static final int HYBRID_STATE_LAYERS = 24;
  private static final long HYBRID_CONV_BYTES = 61_440;
  private static final long HYBRID_STATE_BYTES = 2_097_152;

  private static final int WINDOW_TOKENS = 256;

  private ModelGeometry() {}

  /** The layout of one rank of a model, or a refusal that lists the models. */
  static KvLayout of(String text) {
    var parts = NAME.matcher(text.toLowerCase(Locale.ROOT));
    if (!parts.matches()) {
      throw unknown(text);
    }
    var ranksText = parts.group("ranks");
    int ranks = ranksText == null ? 1 : Integer.parseInt(ranksText);
    if (ranks < 1 || ranks > 64) {
      throw new IllegalArgumentException(ranks + " ranks; 1 to 64 would be right");
    }
    var format = parts.group("format") == null ? "" : parts.group("format");
    var model = parts.group("model");
    if (model.equals(MLA)) {
      return latent(format);
    }
    int elementBytes = format.isEmpty() ? 2 : 1;
    if (model.equals(HYBRID)) {
      return hybrid(ranks, elementBytes);
    }
    return ATTENTION.stream()
        .filter(known -> known.name().equals(model) && !format.endsWith("scales"))
        .findFirst()
        .map(known -> new KvLayout(List.of(attention(known, ranks, elementBytes, BLOCK_TOKENS))))
        .orElseThrow(() -> unknown(text));
  }

  private static Group attention(Attention model, int ranks, int elementBytes, int blockTokens) {
    int heads = Math.max(1, model.kvHeads() / ranks);
    long bytes = (long) blockTokens * heads * model.headDim() * elementBytes;
    var pieces = new ArrayList<Piece>();
    for (int i = 0; i < 2 * model.layers(); i++) {
      pieces.add(Piece.dense(bytes));
    }
    return new Group("attention", blockTokens, pieces);
  }

  /**
   * One latent a token and layer, the same on every rank: 576 elements, or 656 bytes with scales.
   */
  private static KvLayout latent(String format) {
    int tokenBytes =
        switch (format) {
          case "-fp8" -> 576;
          case "-fp8-scales" -> 656;
          default -> 1152;
        };
    var pieces = new ArrayList<Piece>();
    for (int i = 0; i < MLA_LAYERS; i++) {
      pieces.add(Piece.dense((long) BLOCK_TOKENS * tokenBytes));
    }
    return new KvLayout(List.of(new Group("latent", BLOCK_TOKENS, pieces)));
  }

  /** Four attention layers, and a snapshot of 24 state layers for each block of 528 tokens. */
  private static KvLayout hybrid(int ranks, int elementBytes) {
    var attention =
        attention(new Attention(HYBRID, 4, 8, 128), ranks, elementBytes, HYBRID_BLOCK_TOKENS);
    var pieces = new ArrayList<Piece>();
    for (int i = 0; i < HYBRID_STATE_LAYERS; i++) {
      pieces.add(Piece.dense(HYBRID_CONV_BYTES / ranks));
      pieces.add(Piece.dense(HYBRID_STATE_BYTES / ranks));
    }
    return new KvLayout(List.of(attention, new Group("state", HYBRID_BLOCK_TOKENS, pieces)));
  }

  /**
   * KV groups of several kinds, for trials: every block has so many bytes.
   *
   * @param name full, window, state-144, state-272, state-528 or mixed
   */
  static KvLayout groups(String name, long blockBytes) {
    var pieces = List.of(Piece.dense(blockBytes));
    var full = new Group("full", BLOCK_TOKENS, pieces);
    var window =
        new Group("window", 2 * BLOCK_TOKENS, pieces, KvLayout.Attention.sliding(WINDOW_TOKENS));
    var state = Pattern.compile("state-(144|272|528)").matcher(name);
    if (state.matches()) {
      return new KvLayout(List.of(full, state(Integer.parseInt(state.group(1)), pieces)));
    }
    return switch (name) {
      case "full" -> new KvLayout(List.of(full));
      case "window" -> new KvLayout(List.of(full, window));
      case "mixed" -> new KvLayout(List.of(full, window, state(144, pieces)));
      default ->
          throw new IllegalArgumentException(
              "no groups '%s'; full, window, state-144, state-272, state-528 or mixed would be right"
                  .formatted(name));
    };
  }

  private static Group state(int blockTokens, List<Piece> pieces) {
    return new Group("state", blockTokens, pieces, KvLayout.Attention.RECURRENT);
  }

  private static IllegalArgumentException unknown(String text) {
    var names = new ArrayList<>(ATTENTION.stream().map(Attention::name).toList());
    names.add(MLA);
    names.add(HYBRID);
    return new IllegalArgumentException(
        "no model '%s'; MODEL[-tpN][-fp8] with one of %s would be right, for deepseek-v3 also"
                .formatted(text, String.join(", ", names))
            + " -fp8-scales");
  }
}
