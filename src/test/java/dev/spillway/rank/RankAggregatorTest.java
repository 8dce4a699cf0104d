package dev.spillway.rank;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.spillway.block.BlockOutcome;
import dev.spillway.rank.RankAggregator.Answer;
import org.junit.jupiter.api.Test;

class RankAggregatorTest {
  @Test
  void aBlockIsOverOnlyWhenTheLastRankHasSpoken() {
    var ranks = new RankAggregator(3);
    ranks.begin(2);
    assertThat(ranks.report(2, 0, BlockOutcome.STORED)).isEqualTo(Answer.WAITING);
    assertThat(ranks.report(0, 0, BlockOutcome.STORED)).isEqualTo(Answer.WAITING);
    assertThat(ranks.isOver(0)).isFalse();
    assertThat(ranks.report(1, 0, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
    assertThat(ranks.isOver(1)).isFalse();
    assertThat(ranks.outcome(0)).isEqualTo(BlockOutcome.STORED);
  }

  @Test
  void oneRanksFailureDecidesAndTheFirstCauseStays() {
    var ranks = new RankAggregator(3);
    ranks.begin(1);
    ranks.report(0, 0, BlockOutcome.STORED);
    ranks.report(1, 0, BlockOutcome.WRITE_ERROR);
    ranks.report(2, 0, BlockOutcome.SHORT);
    assertThat(ranks.outcome(0)).isEqualTo(BlockOutcome.WRITE_ERROR);
  }

  @Test
  void aSecondReportOfARankChangesNothing() {
    var ranks = new RankAggregator(2);
    ranks.begin(1);
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
    for (int rank = 0; rank < 63; rank++) {
      assertThat(ranks.report(rank, 99, BlockOutcome.STORED)).isEqualTo(Answer.WAITING);
    }
    assertThat(ranks.report(63, 99, BlockOutcome.STORED)).isEqualTo(Answer.OVER);
  }
}
