package dev.spillway.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.KvLayout;
import dev.spillway.block.KvLayout.Attention;
import dev.spillway.block.KvLayout.Group;
import dev.spillway.block.KvLayout.Piece;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class PrefixRuleTest {
  private static Group group(int tokens, Attention attention) {
    return new Group("g" + tokens, tokens, List.of(Piece.dense(4096)), attention);
  }

  private static PrefixRule rule(Group... groups) {
    return new PrefixRule(new KvLayout(List.of(groups)));
  }

  /** Shows: F21 V120 V213: up to the first bad block, in whatever order the reports come. */
  @Test
  void fullAttentionIsValidUpToTheFirstGap() {
    var rule = rule(group(16, Attention.FULL));
    assertThat(rule.longest(0, 160, (group, block) -> block != 4)).isEqualTo(64);
    assertThat(rule.longest(0, 160, (group, block) -> block != 4 && block != 2)).isEqualTo(32);
    assertThat(rule.longest(0, 160, (group, block) -> false)).isZero();
    assertThat(rule.longest(0, 175, (group, block) -> true)).as("whole blocks").isEqualTo(160);
    assertThat(rule.longest(32, 160, (group, block) -> block > 2)).as("the device's").isEqualTo(32);
  }

  @Test
  void aSlidingWindowNeedsOnlyItsWindow() {
    var rule = rule(group(16, Attention.sliding(40)));
    assertThat(rule.firstNeeded(0, 160)).isEqualTo(7);
    assertThat(rule.longest(0, 160, (group, block) -> block >= 7)).isEqualTo(160);
    // Block 8 is lost: the longest prefix whose window is whole ends before it.
    assertThat(rule.longest(0, 160, (group, block) -> block != 8)).isEqualTo(128);
    assertThat(rule.longest(0, 160, (group, block) -> block >= 7 && block != 8)).isZero();
  }

  @Test
  void recurrentStateNeedsTheSnapshotAtTheEnd() {
    var rule = rule(group(16, Attention.RECURRENT));
    assertThat(rule.longest(0, 160, (group, block) -> Set.of(3, 6).contains(block))).isEqualTo(112);
    assertThat(rule.longest(0, 160, (group, block) -> block == 3)).isEqualTo(64);
  }

  /** Shows: F28 V23 V131, case102: the common prefix is a whole block in every group. */
  @Test
  void groupsOf16And544TokensMeetAtWholeBlocksOfBoth() {
    var rule = rule(group(16, Attention.FULL), group(544, Attention.RECURRENT));
    assertThat(rule.unitTokens()).isEqualTo(544);
    assertThat(rule.longest(0, 5440, (group, block) -> group == 0 || block != 9)).isEqualTo(4896);
    assertThat(rule.longest(0, 5440, (group, block) -> group == 1 || block != 70)).isEqualTo(1088);
    assertThat(rule.blocksOf(0, 1088)).isEqualTo(68);
    assertThat(rule.blocksOf(1, 1088)).isEqualTo(2);
  }

  /** Shows: case106 */
  @Test
  void sizesThatDoNotDivideEachOtherMeetAtTheirCommonMultiple() {
    assertThat(rule(group(32, Attention.FULL), group(24, Attention.FULL)).unitTokens())
        .isEqualTo(96);
    assertThat(
            rule(group(16, Attention.FULL), group(144, Attention.FULL), group(272, Attention.FULL))
                .unitTokens())
        .isEqualTo(2448);
    assertThatThrownBy(() -> rule(group(999983, Attention.FULL), group(999979, Attention.FULL)))
        .hasMessageContaining("999979")
        .hasMessageContaining("999983");
  }

  /** Against the definition, tried on every length. */
  @Test
  void agreesWithTheDefinition() {
    var random = new Random(3);
    for (int round = 0; round < 2000; round++) {
      int window = 1 + random.nextInt(100);
      var groups =
          List.of(
              group(8, Attention.FULL),
              group(16, Attention.sliding(window)),
              group(32, Attention.RECURRENT));
      var rule = new PrefixRule(new KvLayout(groups));
      var there = new boolean[3][64];
      for (var row : there) {
        for (int i = 0; i < row.length; i++) {
          row[i] = random.nextInt(10) > 0;
        }
      }
      int from = 32 * random.nextInt(4);
      int expected = from;
      for (int tokens = from; tokens <= 256; tokens += 32) {
        boolean valid = true;
        for (int token = from; token < tokens; token++) {
          valid &= there[0][token / 8];
          valid &= token < tokens - window || there[1][token / 16];
        }
        valid &= tokens == from || there[2][tokens / 32 - 1];
        // A block of which the window needs one token is needed whole.
        expected = valid ? tokens : expected;
      }
      assertThat(rule.longest(from, 256, (group, block) -> there[group][block]))
          .as("round " + round)
          .isEqualTo(expected);
    }
  }
}
