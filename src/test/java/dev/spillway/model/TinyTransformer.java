package dev.spillway.model;

import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import dev.spillway.device.HostDevice;
import java.nio.FloatBuffer;
import java.util.List;
import java.util.SplittableRandom;

/**
 * A decoder-only transformer small enough to think on one core: grouped-query attention, two layers
 * that look at everything and one between them with a sliding window. Weights are seeded, and sums
 * are made in one order, so that the same tokens give the same bits. Its KV cache lies in blocks of
 * device memory, one table for each KV group.
 */
final class TinyTransformer {
  static final int VOCABULARY = 89;
  static final int FULL_TOKENS = 16;
  static final int WINDOW_TOKENS = 8;
  static final int WINDOW = 24;

  private static final int LAYERS = 3;
  private static final int WINDOW_LAYER = 1;
  private static final int WIDTH = 32;
  private static final int HEADS = 4;
  private static final int KV_HEADS = 2;
  private static final int HEAD = WIDTH / HEADS;
  private static final int KV = KV_HEADS * HEAD;
  private static final int HIDDEN = 48;
  private static final long TOKEN_BYTES = KV * Float.BYTES;

  static final KvLayout LAYOUT =
      new KvLayout(
          List.of(
              new Group(
                  "full",
                  FULL_TOKENS,
                  List.of(
                      Piece.dense(FULL_TOKENS * TOKEN_BYTES),
                      Piece.dense(FULL_TOKENS * TOKEN_BYTES),
                      Piece.dense(FULL_TOKENS * TOKEN_BYTES),
                      Piece.dense(FULL_TOKENS * TOKEN_BYTES))),
              new Group(
                  "window",
                  WINDOW_TOKENS,
                  List.of(
                      Piece.dense(WINDOW_TOKENS * TOKEN_BYTES),
                      Piece.dense(WINDOW_TOKENS * TOKEN_BYTES)),
                  Attention.sliding(WINDOW))));

  private final float[][] embedding = new float[VOCABULARY][];
  private final float[][] query = new float[LAYERS][];
  private final float[][] key = new float[LAYERS][];
  private final float[][] value = new float[LAYERS][];
  private final float[][] output = new float[LAYERS][];
  private final float[][] up = new float[LAYERS][];
  private final float[][] down = new float[LAYERS][];
  private final FloatBuffer[][][] cache; // by group, piece and block

  TinyTransformer(HostDevice device, long seed) {
    var random = new SplittableRandom(seed);
    for (int token = 0; token < VOCABULARY; token++) {
      embedding[token] = weights(random, WIDTH, 1);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
      query[layer] = weights(random, WIDTH * WIDTH, WIDTH);
      key[layer] = weights(random, WIDTH * KV, WIDTH);
      value[layer] = weights(random, WIDTH * KV, WIDTH);
      output[layer] = weights(random, WIDTH * WIDTH, WIDTH);
      up[layer] = weights(random, WIDTH * HIDDEN, WIDTH);
      down[layer] = weights(random, HIDDEN * WIDTH, HIDDEN);
    }
    cache = new FloatBuffer[LAYOUT.groups().size()][][];
    for (int group = 0; group < cache.length; group++) {
      cache[group] = new FloatBuffer[LAYOUT.group(group).pieces().size()][];
      for (int piece = 0; piece < cache[group].length; piece++) {
        cache[group][piece] = new FloatBuffer[device.blockCount(group)];
        for (int block = 0; block < cache[group][piece].length; block++) {
          cache[group][piece][block] = device.piece(group, piece, block).asFloatBuffer();
        }
      }
    }
  }

  private static float[] weights(SplittableRandom random, int count, int inputs) {
    var weights = new float[count];
    double scale = 1.7 / Math.sqrt(inputs);
    for (int i = 0; i < count; i++) {
      weights[i] = (float) ((2 * random.nextDouble() - 1) * scale);
    }
    return weights;
  }

  /** What nobody may read: the blocks of requests that are gone. */
  void scribble(int group, int block) {
    for (var piece : cache[group]) {
      for (int i = 0; i < piece[block].capacity(); i++) {
        piece[block].put(i, Float.NaN);
      }
    }
  }

  /**
   * Computes one token, whose keys and values go into the cache, and answers the likeliest next.
   *
   * @param tables device blocks of the request, by group and block of the prefix
   */
  int step(int token, int position, int[][] tables) {
    var state = embedding[token].clone();
    for (int i = 0; i < WIDTH; i += 2) {
      double angle = position / Math.pow(1000, (double) i / WIDTH);
      state[i] += (float) StrictMath.sin(angle);
      state[i + 1] += (float) StrictMath.cos(angle);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
      int group = layer == WINDOW_LAYER ? 1 : 0;
      int piece = layer == LAYERS - 1 ? 2 : 0; // the full group has those of two layers
      var seen = normal(state);
      put(times(key[layer], seen, KV), group, piece, position, tables);
      put(times(value[layer], seen, KV), group, piece + 1, position, tables);
      int first = layer == WINDOW_LAYER ? Math.max(0, position - WINDOW + 1) : 0;
      var mixed = attend(times(query[layer], seen, WIDTH), group, piece, first, position, tables);
      add(state, times(output[layer], mixed, WIDTH));
      var hidden = times(up[layer], normal(state), HIDDEN);
      for (int i = 0; i < HIDDEN; i++) {
        hidden[i] = Math.max(0, hidden[i]);
      }
      add(state, times(down[layer], hidden, WIDTH));
    }
    return likeliest(normal(state));
  }

  private int likeliest(float[] state) {
    int best = 0;
    float bestScore = Float.NEGATIVE_INFINITY;
    for (int token = 0; token < VOCABULARY; token++) {
      float score = dot(embedding[token], 0, state, 0, WIDTH);
      if (Float.isNaN(score)) {
        throw new AssertionError("the cache was read where nobody had written");
      }
      if (score > bestScore) {
        best = token;
        bestScore = score;
      }
    }
    return best;
  }

  private void put(float[] vector, int group, int piece, int position, int[][] tables) {
    int tokens = LAYOUT.group(group).blockTokens();
    int block = tables[group][position / tokens];
    cache[group][piece][block].put(position % tokens * KV, vector);
  }

  private float[] attend(
      float[] queries, int group, int piece, int first, int last, int[][] tables) {
    int tokens = LAYOUT.group(group).blockTokens();
    var mixed = new float[WIDTH];
    var scores = new float[last - first + 1];
    var vector = new float[KV];
    for (int head = 0; head < HEADS; head++) {
      int shared = head / (HEADS / KV_HEADS) * HEAD;
      float highest = Float.NEGATIVE_INFINITY;
      for (int at = first; at <= last; at++) {
        cache[group][piece][tables[group][at / tokens]].get(at % tokens * KV, vector);
        float score = dot(queries, head * HEAD, vector, shared, HEAD) * 3f;
        scores[at - first] = score;
        highest = Math.max(highest, score);
      }
      float sum = 0;
      for (int i = 0; i < scores.length; i++) {
        scores[i] = (float) StrictMath.exp(scores[i] - highest);
        sum += scores[i];
      }
      for (int at = first; at <= last; at++) {
        cache[group][piece + 1][tables[group][at / tokens]].get(at % tokens * KV, vector);
        float weight = scores[at - first] / sum;
        for (int i = 0; i < HEAD; i++) {
          mixed[head * HEAD + i] += weight * vector[shared + i];
        }
      }
    }
    return mixed;
  }

  private static float[] normal(float[] state) {
    float squares = dot(state, 0, state, 0, state.length);
    float scale = (float) (1 / Math.sqrt(squares / state.length + 1e-5));
    var normal = new float[state.length];
    for (int i = 0; i < state.length; i++) {
      normal[i] = state[i] * scale;
    }
    return normal;
  }

  private static float[] times(float[] matrix, float[] vector, int rows) {
    var result = new float[rows];
    for (int row = 0; row < rows; row++) {
      result[row] = dot(matrix, row * vector.length, vector, 0, vector.length);
    }
    return result;
  }

  private static float dot(float[] one, int from, float[] other, int otherFrom, int count) {
    float sum = 0;
    for (int i = 0; i < count; i++) {
      sum += one[from + i] * other[otherFrom + i];
    }
    return sum;
  }

  private static void add(float[] state, float[] more) {
    for (int i = 0; i < state.length; i++) {
      state[i] += more[i];
    }
  }
}
