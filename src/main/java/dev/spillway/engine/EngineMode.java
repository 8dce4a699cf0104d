package dev.spillway.engine;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * How the engine of a rank works, decided at open.
 *
 * @param kind "uring" or "threads"
 * @param kindReason why not io_uring, empty where it is
 * @param direct whether the page cache is passed by
 * @param registered whether staging memory is registered with the ring
 * @param registeredFile whether the file is
 * @param deferTaskrun whether completions are reaped by the lane alone
 * @param alignment of every request, bytes; 1 in the page cache
 * @param fileSystem its name
 * @param path of the block file
 * @param fileBytes of the block file
 * @param epoch of this open
 * @param identity of the content, drawn when it was begun
 * @param queueDepth requests in flight at most, a lane
 * @param stagingSlots a lane
 * @param stagingBytes a lane
 * @param stagingPages "hugetlb", "thp" or "small"
 * @param checksum the vector code in use
 * @param cipher of the blocks on disk: "none" or "aes-256-xts"
 * @param device how blocks are copied: "host", or the CUDA device, its runtime and the copies a
 *     block
 * @param slotCounts slots on disk, by group
 * @param slotBytes of a slot on disk, by group
 * @param regionOffsets where each group's slots begin in the file, bytes
 * @param notices what an operator should know
 */
public record EngineMode(
    String kind,
    String kindReason,
    boolean direct,
    boolean registered,
    boolean registeredFile,
    boolean deferTaskrun,
    int alignment,
    String fileSystem,
    String path,
    long fileBytes,
    long epoch,
    long identity,
    int queueDepth,
    int stagingSlots,
    long stagingBytes,
    String stagingPages,
    String checksum,
    String cipher,
    String device,
    List<Long> slotCounts,
    List<Integer> slotBytes,
    List<Long> regionOffsets,
    List<String> notices) {

  /** Reads the lines that {@code KvEngine::describe} writes. */
  public static EngineMode parse(String text) {
    var values = new HashMap<String, String>();
    var notices = new ArrayList<String>();
    text.lines()
        .forEach(
            line -> {
              var at = line.indexOf('=');
              if (line.startsWith("notice=")) {
                notices.add(line.substring(at + 1));
              } else {
                values.put(line.substring(0, at), line.substring(at + 1));
              }
            });
    var slotCounts = new ArrayList<Long>();
    var slotBytes = new ArrayList<Integer>();
    var regionOffsets = new ArrayList<Long>();
    for (int group = 0; values.containsKey("slotCount." + group); group++) {
      slotCounts.add(Long.parseLong(value(values, "slotCount." + group)));
      slotBytes.add(Integer.parseInt(value(values, "slotBytes." + group)));
      regionOffsets.add(Long.parseLong(value(values, "regionOffset." + group)));
    }
    return new EngineMode(
        value(values, "kind"),
        value(values, "kindReason"),
        value(values, "direct").equals("1"),
        value(values, "registered").equals("1"),
        value(values, "registeredFile").equals("1"),
        value(values, "deferTaskrun").equals("1"),
        Integer.parseInt(value(values, "alignment")),
        value(values, "fileSystem"),
        value(values, "path"),
        Long.parseLong(value(values, "fileBytes")),
        Long.parseLong(value(values, "epoch")),
        Long.parseUnsignedLong(value(values, "identity")),
        Integer.parseInt(value(values, "queueDepth")),
        Integer.parseInt(value(values, "stagingSlots")),
        Long.parseLong(value(values, "stagingBytes")),
        value(values, "stagingPages"),
        value(values, "checksum"),
        value(values, "cipher"),
        value(values, "device"),
        List.copyOf(slotCounts),
        List.copyOf(slotBytes),
        List.copyOf(regionOffsets),
        List.copyOf(notices));
  }

  /** The same as lines, which {@link #parse} reads: for a scheduler in another process. */
  public String lines() {
    var text = new StringBuilder();
    line(text, "kind", kind);
    line(text, "kindReason", kindReason);
    line(text, "direct", direct ? 1 : 0);
    line(text, "registered", registered ? 1 : 0);
    line(text, "registeredFile", registeredFile ? 1 : 0);
    line(text, "deferTaskrun", deferTaskrun ? 1 : 0);
    line(text, "alignment", alignment);
    line(text, "fileSystem", fileSystem);
    line(text, "path", path);
    line(text, "fileBytes", fileBytes);
    line(text, "epoch", epoch);
    line(text, "identity", Long.toUnsignedString(identity));
    line(text, "queueDepth", queueDepth);
    line(text, "stagingSlots", stagingSlots);
    line(text, "stagingBytes", stagingBytes);
    line(text, "stagingPages", stagingPages);
    line(text, "checksum", checksum);
    line(text, "cipher", cipher);
    line(text, "device", device);
    for (int group = 0; group < slotCounts.size(); group++) {
      line(text, "slotCount." + group, slotCounts.get(group));
      line(text, "slotBytes." + group, slotBytes.get(group));
      line(text, "regionOffset." + group, regionOffsets.get(group));
    }
    notices.forEach(notice -> line(text, "notice", notice));
    return text.toString();
  }

  private static void line(StringBuilder text, String name, Object value) {
    text.append(name).append('=').append(value).append('\n');
  }

  private static String value(Map<String, String> values, String name) {
    var value = values.get(name);
    if (value == null) {
      throw new IllegalStateException("the native library does not say its " + name);
    }
    return value;
  }
}
