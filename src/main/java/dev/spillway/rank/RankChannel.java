package dev.spillway.rank;

import dev.spillway.block.RankHello;
import dev.spillway.block.RankReport;
import dev.spillway.block.RestoredBlocks;
import dev.spillway.block.TransferPlan;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ByteChannel;
import java.nio.charset.StandardCharsets;

/**
 * Plans and reports over a channel between two processes of one machine or two: frames of a length,
 * a kind and a body. One thread may send while another receives; both wait for the channel.
 *
 * <pre>
 * length of the body, 4 bytes | kind, 4 bytes | body
 * </pre>
 */
public final class RankChannel implements AutoCloseable {
  /** Raised with every change of a frame; both ends must have the same. */
  private static final int VERSION = 4;

  private static final int MAGIC = 0x5350_574c;
  private static final int HEAD_BYTES = 2 * Integer.BYTES;
  private static final int BODY_BYTES_MAX = 64 << 20;
  private static final int TEXT_BYTES_MAX = 65536;

  /** What a frame is. */
  public enum Kind {
    /** Rank to scheduler, first: who it is and how it works. */
    HELLO,
    /** Scheduler to rank, second: the epoch and the bounds agreed. */
    WELCOME,
    /** Rank to scheduler, third: its epoch is on disk. */
    READY,
    PLAN,
    REPORT,
    /** Rank to scheduler: a run of slots that an earlier process has stored blocks in. */
    RESTORED,
    /** Either way: still there. A rank's has its counters. */
    ALIVE,
    /** Scheduler to rank: drain and leave. Rank to scheduler: all is told. */
    BYE
  }

  private static final Kind[] KINDS = Kind.values();

  private final ByteChannel channel;
  private ByteBuffer out = buffer(4096);
  private ByteBuffer in = buffer(4096);

  public RankChannel(ByteChannel channel) {
    this.channel = channel;
  }

  /** A buffer for bodies, in the byte order of the wire. */
  public static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The body of a hello: what it says, and the rank's mode as lines. */
  public static ByteBuffer hello(RankHello hello, String mode) {
    byte[] text = mode.getBytes(StandardCharsets.UTF_8);
    var body = buffer(256 + text.length);
    body.putInt(MAGIC).putInt(VERSION);
    hello.writeTo(body);
    putText(body, mode);
    return body.flip();
  }

  /**
   * Reads the beginning of a hello.
   *
   * @throws IOException where it is none, or one of another version
   */
  public static RankHello helloOf(ByteBuffer body) throws IOException {
    if (body.remaining() < HEAD_BYTES || body.getInt() != MAGIC) {
      throw new IOException("the other end is no rank of Spillway");
    }
    int version = body.getInt();
    if (version != VERSION) {
      throw new IOException(
          "the rank speaks version %d; %d would be right".formatted(version, VERSION));
    }
    return RankHello.readFrom(body);
  }

  public static void putText(ByteBuffer body, String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    body.putInt(bytes.length).put(bytes);
  }

  public static String textOf(ByteBuffer body) throws IOException {
    int bytes = body.getInt();
    if (bytes < 0 || bytes > Math.min(TEXT_BYTES_MAX, body.remaining())) {
      throw new IOException("a text of " + bytes + " bytes in a frame");
    }
    var text = new byte[bytes];
    body.get(text);
    return new String(text, StandardCharsets.UTF_8);
  }

  /** A plan as the body of a frame, to be sent later. */
  public static ByteBuffer encoded(TransferPlan plan) {
    var body = buffer(plan.encodedBytes());
    plan.writeTo(body);
    return body.flip();
  }

  // One thread sends.

  public void send(Kind kind, ByteBuffer body) throws IOException {
    begin(kind, body.remaining());
    out.put(body);
    flush();
  }

  public void send(RankReport report) throws IOException {
    begin(Kind.REPORT, report.encodedBytes());
    report.writeTo(out);
    flush();
  }

  public void send(RestoredBlocks run) throws IOException {
    begin(Kind.RESTORED, run.encodedBytes());
    run.writeTo(out);
    flush();
  }

  @SuppressWarnings("EnumOrdinal") // both ends have the same version
  private void begin(Kind kind, int bodyBytes) {
    if (out.capacity() < HEAD_BYTES + bodyBytes) {
      out = buffer(2 * (HEAD_BYTES + bodyBytes));
    }
    out.clear();
    out.putInt(bodyBytes).putInt(kind.ordinal());
  }

  private void flush() throws IOException {
    out.flip();
    while (out.hasRemaining()) {
      if (channel.write(out) == 0) {
        throw new IOException("a channel that does not wait; a blocking one would be right");
      }
    }
  }

  // One thread receives.

  /**
   * Waits for the next frame, whose body is then {@link #body}.
   *
   * @throws EOFException where the other end is gone
   */
  public Kind receive() throws IOException {
    fill(HEAD_BYTES);
    int bytes = in.getInt();
    int kind = in.getInt();
    if (bytes < 0 || bytes > BODY_BYTES_MAX || kind < 0 || kind >= KINDS.length) {
      throw new IOException("a frame of kind %d with %d bytes".formatted(kind, bytes));
    }
    fill(bytes);
    return KINDS[kind];
  }

  /** Of the frame received last; valid until the next. */
  public ByteBuffer body() {
    return in;
  }

  private void fill(int bytes) throws IOException {
    if (in.capacity() < bytes) {
      in = buffer(2 * bytes);
    }
    in.clear().limit(bytes);
    while (in.hasRemaining()) {
      int count = channel.read(in);
      if (count < 0) {
        throw new EOFException("the other end is gone");
      }
      if (count == 0) {
        throw new IOException("a channel that does not wait; a blocking one would be right");
      }
    }
    in.flip();
  }

  /** Ends a wait of either thread. */
  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException e) {
      // It is gone one way or the other.
      assert e != null;
    }
  }
}
