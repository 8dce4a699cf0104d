package dev.spillway.examples;

import dev.spillway.RankWorker;
import dev.spillway.Spillway;
import dev.spillway.SpillwayConfig;
import dev.spillway.block.KvLayout;
import dev.spillway.block.PrefixHasher;
import dev.spillway.device.HostDevice;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A scheduler and a rank in two JVMs, over a Unix domain socket. Start the scheduler, then the
 * rank, both with the same directory:
 *
 * <pre>
 * java -cp ... dev.spillway.examples.TwoProcesses scheduler DIRECTORY
 * java -cp ... dev.spillway.examples.TwoProcesses rank DIRECTORY
 * </pre>
 */
public final class TwoProcesses {
  /** Blocks of 16 tokens; each rank holds 64 KiB of every block. */
  private static final KvLayout LAYOUT = KvLayout.ofBlockBytes(65536, 16);

  private TwoProcesses() {}

  public static void main(String[] arguments) throws IOException {
    var directory = Path.of(arguments[1]);
    if (arguments[0].equals("rank")) {
      rank(directory);
    } else {
      scheduler(directory);
    }
  }

  /** Has the device memory and the block file, and does what the scheduler asks. */
  static void rank(Path directory) throws IOException {
    try (var device = HostDevice.allocate(LAYOUT, 64);
        var worker = RankWorker.open(SpillwayConfig.in(directory, device), 0, 1)) {
      worker.serve(SocketChannel.open(UnixDomainSocketAddress.of(directory.resolve("ranks"))));
    }
  }

  /** Has the requests, and no device memory. */
  static void scheduler(Path directory) throws IOException {
    var socket = directory.resolve("ranks");
    try (var server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      server.bind(UnixDomainSocketAddress.of(socket));
      var config = SpillwayConfig.remote(LAYOUT, 64).addRank(server.accept()).build();
      try (var spillway = Spillway.open(config)) {
        var keys = new PrefixHasher("a tenant", "").hash(new int[64], 16);
        var stored = spillway.await(spillway.store(keys, 0, new int[] {0, 1, 2, 3}));
        System.out.println(stored);
        try (var prefix = spillway.lookup(keys)) {
          System.out.println(spillway.await(spillway.load(prefix, new int[] {10, 11, 12, 13})));
        }
      }
    } finally {
      Files.deleteIfExists(socket);
    }
  }
}
