package dev.spillway.rank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.rank.RankAggregator.Answer;
import org.junit.jupiter.api.Test;

class RankAggregatorTest {
  /** Shows: F27 V142 V144 */
  @Test
  void aBlockIsOverOnlyWhenTheLastRankHasSpoken() {
    var ranks = new RankAggregator(3);
    ranks.begin(2);
    ranks.expect(0);
    ranks.expect(1);
    assertThat(ranks.report(2, 0, BlockOutcome.STORED)).isEqualTo(Answer.WAITING);
    assertThat(ranks.report(0, 0, BlockOutcome.STORED)).isEqualTo(Answer.WAITING);
    assertThat(ranks.isOver(0)).isFalse();
    assertThat(ranks.report(1, 0, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
    assertThat(ranks.isOver(1)).isFalse();
    assertThat(ranks.outcome(0)).isEqualTo(BlockOutcome.STORED);
  }

  /** Shows: F26 V143 */
  @Test
  void oneRanksFailureDecidesAndTheFirstCauseStays() {
    var ranks = new RankAggregator(3);
    ranks.begin(1);
    ranks.expect(0);
    ranks.report(0, 0, BlockOutcome.STORED);
    ranks.report(1, 0, BlockOutcome.WRITE_ERROR);
    ranks.report(2, 0, BlockOutcome.SHORT);
    assertThat(ranks.outcome(0)).isEqualTo(BlockOutcome.WRITE_ERROR);
  }

  @Test
  void aSecondReportOfARankChangesNothing() {
    var ranks = new RankAggregator(2);
    ranks.begin(1);
    ranks.expect(0);
    ranks.report(0, 0, BlockOutcome.LOADED);
    assertThat(ranks.report(0, 0, BlockOutcome.CORRUPT)).isEqualTo(Answer.DOUBLE);
    assertThat(ranks.report(1, 0, BlockOutcome.LOADED)).isEqualTo(Answer.OVER);
    assertThat(ranks.outcome(0)).isEqualTo(BlockOutcome.LOADED);
  }

  @Test
  void oneToSixtyFourRanks() {
    assertThatThrownBy(() -> new RankAggregator(0)).hasMessage("0 ranks; 1 to 64 would be right");
    assertThatThrownBy(() -> new RankAggregator(65)).hasMessageContaining("65 ranks");
    var ranks = new RankAggregator(64);
    ranks.begin(100);
    ranks.expect(99);
    for (int rank = 0; rank < 63; rank++) {
      assertThat(ranks.report(rank, 99, BlockOutcome.STORED)).isEqualTo(Answer.WAITING);
    }
    assertThat(ranks.report(63, 99, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
  }

  @Test
  void aBlockIsQuietOnlyWhenTheLastRankHasLetGoAndSaysSoOnce() {
    var ranks = new RankAggregator(2);
    ranks.begin(1);
    ranks.expect(0);
    ranks.report(0, 0, BlockOutcome.CANCELLED);
    ranks.report(1, 0, BlockOutcome.STORED);
    assertThat(ranks.quiet(1, 0)).isFalse();
    assertThat(ranks.isCopied(0)).as("rank 0 may still read it").isFalse();
    ranks.copied(0, 0);
    assertThat(ranks.isCopied(0)).as("quiet on one, copied on the other").isTrue();
    assertThat(ranks.isQuiet(0)).isFalse();
    assertThat(ranks.quiet(0, 0)).isTrue();
    assertThat(ranks.quiet(0, 0)).isFalse();
  }

  @Test
  void onlyTheRanksThatWereAskedAreAwaited() {
    var ranks = new RankAggregator(3);
    ranks.begin(2);
    ranks.expect(0, 0b010);
    assertThat(ranks.report(2, 0, BlockOutcome.STORED)).isEqualTo(Answer.DOUBLE);
    assertThat(ranks.report(1, 0, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
    assertThat(ranks.report(0, 1, BlockOutcome.STORED))
        .as("not asked for")
        .isEqualTo(Answer.DOUBLE);
  }

  /** Shows: V145: how many ranks are asked is a block's own affair; what is under way keeps it. */
  @Test
  void v145ABlockKeepsTheCountItWasBegunWith() {
    var ranks = new RankAggregator(4);
    ranks.begin(2);
    ranks.expect(0);
    ranks.report(0, 0, BlockOutcome.STORED);
    ranks.expect(1, 0b0011); // from four to two
    ranks.report(0, 1, BlockOutcome.STORED);
    assertThat(ranks.report(1, 1, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
    assertThat(ranks.report(1, 0, BlockOutcome.STORED)).as("of four").isEqualTo(Answer.WAITING);
    ranks.report(2, 0, BlockOutcome.STORED);
    assertThat(ranks.report(3, 0, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
  }
}
