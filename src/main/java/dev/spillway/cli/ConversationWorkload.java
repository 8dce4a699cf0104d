package dev.spillway.cli;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/**
 * The built-in workload: conversations of several turns over a shared system prompt. Its numbers
 * are chosen so that requests look like those of the published Mooncake conversation trace: 14, 54
 * and 167 blocks at p50, p90 and p99, 247 at most, 512 tokens a block; a fifth of the first 1,000
 * requests' block references are repetitions, rising to two fifths. The same seed gives the same
 * requests.
 */
final class ConversationWorkload {
  static final int BLOCK_TOKENS = 512;
  private static final int BLOCKS_MAX = 247;

  /** Conversations that were under way before the first request was seen, and at most are. */
  private static final int SESSIONS = 1500;

  private static final double NEW_SESSION_SHARE = 0.58;
  private static final double FIRST_TURN_LOG_MEAN = 2.25;
  private static final double FIRST_TURN_LOG_SIGMA = 1.2;
  private static final int FIRST_TURN_MAX = 200;
  private static final double NEXT_TURN_LOG_MEAN = 1.2;
  private static final double NEXT_TURN_LOG_SIGMA = 1.0;
  private static final int NEXT_TURN_MAX = 60;

  /** 12,031 requests in an hour. */
  private static final double MILLIS_BETWEEN = 3_600_000.0 / 12_031;

  private final Random random;
  private final List<long[]> sessions = new ArrayList<>();
  private long nextId = 1; // id 0 is the system prompt, in every request
  private double millis;

  private ConversationWorkload(long seed) {
    random = new Random(seed);
    for (int i = 0; i < SESSIONS; i++) {
      sessions.add(firstTurn());
    }
  }

  static List<Request> generate(int count, long seed) {
    var workload = new ConversationWorkload(seed);
    var requests = new ArrayList<Request>(count);
    for (int i = 0; i < count; i++) {
      requests.add(workload.next());
    }
    return requests;
  }

  private Request next() {
    var ids = random.nextDouble() < NEW_SESSION_SHARE ? firstTurn() : nextTurn();
    if (ids.length < BLOCKS_MAX) {
      sessions.add(ids);
    }
    if (sessions.size() > SESSIONS) {
      sessions.remove(0);
    }
    millis -= Math.log(1 - random.nextDouble()) * MILLIS_BETWEEN;
    // The last block is partly filled, as in the trace.
    long tokens = (ids.length - 1L) * BLOCK_TOKENS + 1 + random.nextInt(BLOCK_TOKENS);
    return new Request((long) millis, tokens, ids);
  }

  private long[] firstTurn() {
    int length = lognormal(FIRST_TURN_LOG_MEAN, FIRST_TURN_LOG_SIGMA, FIRST_TURN_MAX);
    return extended(new long[1], length);
  }

  /** A conversation goes on, likelier one that was active of late; its last block is rewritten. */
  private long[] nextTurn() {
    double draw = random.nextDouble();
    double recent = 1 - draw * draw;
    var ids = sessions.remove((int) (recent * (sessions.size() - 1)));
    int length = lognormal(NEXT_TURN_LOG_MEAN, NEXT_TURN_LOG_SIGMA, NEXT_TURN_MAX);
    return extended(Arrays.copyOf(ids, ids.length - 1), length);
  }

  private long[] extended(long[] prefix, int blocks) {
    var ids = Arrays.copyOf(prefix, Math.min(BLOCKS_MAX, prefix.length + blocks));
    for (int i = prefix.length; i < ids.length; i++) {
      ids[i] = nextId++;
    }
    return ids;
  }

  private int lognormal(double logMean, double logSigma, int max) {
    double value = Math.exp(logMean + logSigma * random.nextGaussian());
    return (int) Math.max(1, Math.min(max, Math.round(value)));
  }
}
