package dev.spillway.block;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.testing.Commands;
import java.util.List;
import org.junit.jupiter.api.Test;

class PrefixHasherTest {
  private static final int[] TOKENS = {1, 2, 3, 4, 5, 6, 7};

  /** What the child JVM of {@link #case73KeysAreTheSameInAnotherJvm} runs. */
  static final class PrintKeys {
    public static void main(String[] args) {
      System.out.print(print(new PrefixHasher("salt", "adapter").hash(TOKENS, 2)));
    }
  }

  private static String print(BlockKeys keys) {
    var text = new StringBuilder();
    for (int i = 0; i < keys.size(); i++) {
      text.append(keys.get(i)).append('\n');
    }
    return text.toString();
  }

  @Test
  void onlyFullBlocksHaveAKey() {
    assertThat(new PrefixHasher("", "").hash(TOKENS, 2).size()).isEqualTo(3);
    assertThat(new PrefixHasher("", "").hash(TOKENS, 8).size()).isZero();
    assertThatThrownBy(() -> new PrefixHasher("", "").hash(TOKENS, 0))
        .hasMessage("blockTokens is 0; at least 1 would be right");
  }

  @Test
  void aKeyCoversAllThatPrecedes() {
    var hasher = new PrefixHasher("", "");
    var keys = hasher.hash(new int[] {1, 2, 3, 4}, 2);
    var other = hasher.hash(new int[] {9, 2, 3, 4}, 2);
    assertThat(other.get(0)).isNotEqualTo(keys.get(0));
    assertThat(other.get(1)).isNotEqualTo(keys.get(1));
    assertThat(hasher.hash(new int[] {1, 2, 9, 4}, 2).get(0)).isEqualTo(keys.get(0));
  }

  @Test
  void saltAndAdapterSeparateEvenWhereTheirTextsRunTogether() {
    var keys = new PrefixHasher("ab", "c").hash(TOKENS, 2);
    assertThat(new PrefixHasher("a", "bc").hash(TOKENS, 2).get(0)).isNotEqualTo(keys.get(0));
    assertThat(new PrefixHasher("ab", "").hash(TOKENS, 2).get(0)).isNotEqualTo(keys.get(0));
  }

  /** SHA-256(SHA-256(00000000 00000000) 00000001 00000002), its first half: computed elsewhere. */
  @Test
  void theConstructionIsFixed() {
    assertThat(new PrefixHasher("", "").hash(new int[] {1, 2}, 2).get(0).toString())
        .isEqualTo("486e52da02a6dbf16a1b998a6bb4eb41");
  }

  @Test
  void case73KeysAreTheSameInAnotherJvm() {
    var output = Commands.run(Commands.java(List.of(), PrintKeys.class));
    assertThat(output.text()).isEqualTo(print(new PrefixHasher("salt", "adapter").hash(TOKENS, 2)));
  }
}
