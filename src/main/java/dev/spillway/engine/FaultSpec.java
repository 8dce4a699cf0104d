package dev.spillway.engine;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Faults to make on purpose, for trials: rates and kinds, seeded. Written as {@code
 * read-eio=1%,short-read=1%,write-enospc=0.5%,corrupt=0.1%,delay-read=1%}; reached only by
 * configuration, and said at open.
 *
 * @param seed decides which requests are hit; the same seed and requests give the same faults
 */
public record FaultSpec(List<Fault> faults, long seed) {
  public static final FaultSpec NONE = new FaultSpec(List.of(), 0);

  /** Kind and direction as {@code base/FaultPlan.h} numbers them. */
  private record Shape(int kind, int direction, int errno) {}

  /**
   * One kind of fault.
   *
   * @param rate of the requests that it can fall on, 0 to 1
   */
  public record Fault(String name, double rate) {}

  private static final long DELAY_NANOS = 2_000_000;
  private static final int ANY = 0;
  private static final int READ = 1;
  private static final int WRITE = 2;

  private static final Map<String, Shape> SHAPES =
      Map.ofEntries(
          Map.entry("read-eio", new Shape(1, READ, 5)),
          Map.entry("write-eio", new Shape(1, WRITE, 5)),
          Map.entry("write-enospc", new Shape(1, WRITE, 28)),
          Map.entry("read-einval", new Shape(1, READ, 22)),
          Map.entry("write-einval", new Shape(1, WRITE, 22)),
          Map.entry("eagain", new Shape(1, ANY, 11)),
          Map.entry("eintr", new Shape(1, ANY, 4)),
          Map.entry("short-read", new Shape(2, READ, 0)),
          Map.entry("short-write", new Shape(2, WRITE, 0)),
          Map.entry("zero-read", new Shape(3, READ, 0)),
          Map.entry("zero-write", new Shape(3, WRITE, 0)),
          Map.entry("corrupt", new Shape(4, READ, 0)),
          Map.entry("delay-read", new Shape(5, READ, 0)),
          Map.entry("delay-write", new Shape(5, WRITE, 0)),
          Map.entry("reorder", new Shape(6, ANY, 0)),
          Map.entry("copy-late", new Shape(7, ANY, 0)),
          Map.entry("copy-fail", new Shape(8, ANY, 5)));

  public FaultSpec {
    faults = List.copyOf(faults);
  }

  /** Reads {@code KIND=RATE,…}; a rate is a share (0.01) or has a percent sign. */
  public static FaultSpec parse(String text, long seed) {
    var faults = new ArrayList<Fault>();
    for (var part : text.split(",", -1)) {
      var sides = part.strip().split("=", -1);
      if (sides.length != 2 || !SHAPES.containsKey(sides[0].strip().toLowerCase(Locale.ROOT))) {
        throw new IllegalArgumentException(
            "fault '%s'; KIND=RATE with one of %s would be right"
                .formatted(
                    part.strip(), String.join(", ", SHAPES.keySet().stream().sorted().toList())));
      }
      faults.add(new Fault(sides[0].strip().toLowerCase(Locale.ROOT), rate(sides[1].strip())));
    }
    return new FaultSpec(faults, seed);
  }

  /** A share of all, 0 to 1, or with a percent sign. */
  public static double rate(String text) {
    boolean percent = text.endsWith("%");
    double value;
    try {
      value = Double.parseDouble(percent ? text.substring(0, text.length() - 1) : text);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException("rate '" + text + "'; for example 1% would be right", e);
    }
    double rate = percent ? value / 100 : value;
    if (!(rate >= 0 && rate <= 1)) {
      throw new IllegalArgumentException("rate '" + text + "'; 0 to 100 % would be right");
    }
    return rate;
  }

  public boolean isEmpty() {
    return faults.isEmpty();
  }

  void putTo(ByteBuffer record) {
    for (var fault : faults) {
      var shape = SHAPES.get(fault.name());
      if (shape == null) {
        throw new IllegalArgumentException("no fault " + fault.name());
      }
      record
          .putInt(shape.kind())
          .putInt(shape.direction())
          .putInt(shape.errno())
          .putInt(0)
          .putDouble(fault.rate())
          .putLong(DELAY_NANOS);
    }
  }
}
