package dev.spillway;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.spillway.block.KvLayout;
import dev.spillway.block.PrefixHasher;
import dev.spillway.device.HostDevice;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program of the README: open, store, look up, load, close. */
class TutorialTest {
  @Test
  void storesAPrefixAndLoadsItBack(@TempDir Path directory) {
    var layout = KvLayout.ofBlockBytes(65536, 16); // 64 KiB hold the KV of 16 tokens
    try (var device = HostDevice.allocate(layout, 8);
        var spillway = Spillway.open(SpillwayConfig.in(directory, device))) {

      // A prompt of 64 tokens is four full blocks; their KV was computed into device blocks 0 to 3.
      var prompt = new int[64];
      var keys = new PrefixHasher("", "").hash(prompt, 16);
      device.block(2).putLong(0, 42);

      var stored = spillway.store(keys, 0, new int[] {0, 1, 2, 3});
      assertEquals(4, spillway.await(stored).moved());

      // Later, another request with the same prefix gets it into device blocks 4 to 7.
      try (var prefix = spillway.lookup(keys)) {
        var loaded = spillway.load(prefix, new int[] {4, 5, 6, 7});
        assertEquals(4, spillway.await(loaded).wellPrefix());
      }
      assertEquals(42, device.block(6).getLong(0));
    }
  }
}
