package dev.spillway.cli;

import java.util.Locale;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads and writes sizes: 262144, 256KiB, 2GiB, 1.5GB. */
final class Bytes implements ITypeConverter<Long> {
  private static final String[] UNITS = {"B", "KiB", "MiB", "GiB", "TiB"};

  @Override
  public Long convert(String text) {
    var trimmed = text.trim();
    int unitAt = 0;
    while (unitAt < trimmed.length()
        && (Character.isDigit(trimmed.charAt(unitAt)) || trimmed.charAt(unitAt) == '.')) {
      unitAt++;
    }
    try {
      double number = Double.parseDouble(trimmed.substring(0, unitAt));
      double bytes = number * factor(trimmed.substring(unitAt).trim());
      if (bytes >= 1 && bytes < Long.MAX_VALUE) {
        return Math.round(bytes);
      }
    } catch (IllegalArgumentException e) {
      // said below, with what would be right
    }
    throw new TypeConversionException(
        "'" + text + "' is no size; 262144, 256KiB, 2GiB or 1.5GB would be right");
  }

  private static double factor(String unit) {
    return switch (unit.toLowerCase(Locale.ROOT)) {
      case "", "b" -> 1;
      case "k", "kib" -> 1L << 10;
      case "m", "mib" -> 1L << 20;
      case "g", "gib" -> 1L << 30;
      case "t", "tib" -> 1L << 40;
      case "kb" -> 1e3;
      case "mb" -> 1e6;
      case "gb" -> 1e9;
      case "tb" -> 1e12;
      default -> throw new IllegalArgumentException(unit);
    };
  }

  /** The largest unit that leaves a number of at least one. */
  static String format(long bytes) {
    double number = bytes;
    int unit = 0;
    while (number >= 1024 && unit < UNITS.length - 1) {
      number /= 1024;
      unit++;
    }
    return String.format(Locale.ROOT, unit == 0 ? "%.0f %s" : "%.2f %s", number, UNITS[unit]);
  }
}
