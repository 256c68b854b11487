#include "filters/ledger/lease/stream_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/seeded_random.h"

namespace recourse::stream_keeper_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

class TurnedClock final : public Clock {
 public:
  MonoTime Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  MonoTime now{std::chrono::hours(1)};
};

// Streams of a group, of which nobody but the test writes any.
class ScriptedTable final : public StreamTable {
 public:
  struct Row {
    int state = 1;
    std::uint64_t beat = 1, taken_by = 0;
    bool has_open = true;
    int left = 0;  // calls of TakeOverSome until nothing is
  };
  bool HasSaidTaking() const override { return has_said; }
  Result<Listed> List() override {
    ++lists;
    if (is_away) return Away();
    Listed listed;
    for (const auto& [number, row] : rows) {
      if (row.state == 1) ++listed.processes;
      if (row.state == 1 && row.has_open) listed.open.push_back({number, row.beat, true});
      const auto taker = rows.find(row.taken_by);
      const bool lives = taker != rows.end() && taker->second.state == 1;
      if (row.state == 2 && !lives) listed.abandoned.push_back({number, row.taken_by});
    }
    return listed;
  }
  Result<std::vector<Watch::Beat>> Beats(std::span<const std::uint64_t> streams) override {
    ++reads;
    if (is_away) return Away();
    std::vector<Watch::Beat> beats;
    for (const std::uint64_t number : streams) {
      beats.push_back({number, rows.at(number).beat, rows.at(number).has_open});
    }
    return beats;
  }
  Result<void> TellWentBack(Watch::Silent seen) override {
    if (is_away) return Away();
    went_back.push_back(seen);
    return {};
  }
  Result<bool> Declare(Watch::Silent silent) override {
    Row& row = rows.at(silent.stream);
    if (row.state != 1 || row.beat + raised_meanwhile != silent.beat) return false;
    row.state = 2;
    row.taken_by = 7;
    declared.push_back(silent.stream);
    return true;
  }
  Result<bool> Adopt(Abandoned abandoned) override {
    rows.at(abandoned.stream).taken_by = 7;
    adopted.push_back(abandoned.stream);
    return true;
  }
  Result<bool> TakeOverSome(std::uint64_t stream) override {
    if (is_away) return Away();
    Row& row = rows.at(stream);
    if (row.left-- > 0) return false;
    row.state = 3;
    return true;
  }

  std::map<std::uint64_t, Row> rows{{7, {.has_open = false}}};
  std::vector<std::uint64_t> declared, adopted;
  std::vector<Watch::Silent> went_back;
  std::uint64_t raised_meanwhile = 0;
  bool is_away = false, has_said = true;
  int lists = 0, reads = 0;

 private:
  static std::unexpected<Error> Away() {
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable));
  }
};

class StreamKeeperTest : public ::testing::Test {
 protected:
  void RunFor(milliseconds time) {
    for (const MonoTime end = clock_.now + time; clock_.now <= end;) {
      clock_.now = std::max(clock_.now, keeper_.Step());
    }
  }

  TurnedClock clock_;
  SeededRandom random_;
  ScriptedTable table_;
  StreamKeeper keeper_{7, table_, clock_, random_};
};

TEST_F(StreamKeeperTest, TakesOverWhoeverIsSilentWithinNineSeconds) {
  table_.rows[9] = {.left = 3};
  RunFor(milliseconds(6'900));
  EXPECT_TRUE(table_.declared.empty());
  RunFor(milliseconds(2'000));
  EXPECT_THAT(table_.declared, ElementsAre(9));
  EXPECT_EQ(table_.rows[9].state, 3);
  EXPECT_EQ(table_.rows[7].state, 1);
  EXPECT_FALSE(keeper_.is_taking());
  EXPECT_EQ(keeper_.takeovers(), 1U);
}

// Of a process that died with the primary nobody else can tell that its last rows are gone.
TEST_F(StreamKeeperTest, ABeatThatGoesBackIsToldOnce) {
  table_.rows[9] = {.beat = 30};
  RunFor(milliseconds(1'500));
  table_.is_away = true;
  table_.rows[9].beat = 28;
  RunFor(milliseconds(4'000));
  EXPECT_TRUE(table_.went_back.empty());
  table_.is_away = false;
  RunFor(milliseconds(4'000));
  EXPECT_THAT(table_.went_back, ElementsAre(Watch::Silent{9, 30}));
  table_.rows[9].beat = 29;
  RunFor(milliseconds(4'000));
  EXPECT_EQ(table_.went_back.size(), 1U);
}

// When this one dies in the middle somebody is to look.
TEST_F(StreamKeeperTest, NobodyIsTakenBeforeTheOthersKnowThatSomebodyIs) {
  table_.rows[9] = {};
  table_.rows[11] = {.state = 2, .has_open = false};
  table_.has_said = false;
  RunFor(milliseconds(500));
  EXPECT_TRUE(keeper_.is_taking());
  RunFor(milliseconds(9'000));
  EXPECT_TRUE(table_.declared.empty());
  EXPECT_TRUE(table_.adopted.empty());
  table_.has_said = true;
  RunFor(milliseconds(20));
  EXPECT_THAT(table_.declared, ElementsAre(9));
  EXPECT_THAT(table_.adopted, ElementsAre(11));
  RunFor(milliseconds(1'000));
  EXPECT_FALSE(keeper_.is_taking());
}

// A node with all pods but one: nobody else is there to look at the next ones of the ring.
TEST_F(StreamKeeperTest, HoweverManyDieAtOnceTheyAreTakenOverWithinNineSeconds) {
  constexpr std::uint64_t kDead = 100;
  for (std::uint64_t one = 0; one < kDead; ++one) table_.rows[10 + one] = {.left = 2};
  RunFor(milliseconds(6'900));
  EXPECT_TRUE(table_.declared.empty());
  RunFor(milliseconds(2'000));
  EXPECT_EQ(table_.declared.size(), kDead);
  EXPECT_EQ(keeper_.takeovers(), kDead);
}

// Those of them that beat go on to live, also while others are taken over.
TEST_F(StreamKeeperTest, WhoBeatsAmongManyDeadIsNotTaken) {
  for (std::uint64_t one = 10; one < 50; ++one) table_.rows[one] = {.left = 20};
  for (int i = 0; i < 30; ++i) {
    RunFor(milliseconds(500));
    for (const std::uint64_t one : {13UL, 30UL}) ++table_.rows[one].beat;
  }
  for (std::uint64_t one = 10; one < 50; ++one) {
    EXPECT_EQ(table_.rows[one].state, one == 13 || one == 30 ? 1 : 3) << one;
  }
}

TEST_F(StreamKeeperTest, WithNothingOpenItOnlyListsOnceASecond) {
  RunFor(milliseconds(60'000));
  EXPECT_LE(table_.lists, 62);
  EXPECT_EQ(table_.reads, 0);
}

TEST_F(StreamKeeperTest, WhoHasRaisedItsBeatMeanwhileIsNotTaken) {
  table_.rows[9] = {};
  table_.raised_meanwhile = 1;
  RunFor(milliseconds(20'000));
  EXPECT_TRUE(table_.declared.empty());
  EXPECT_EQ(table_.rows[9].state, 1);
}

TEST_F(StreamKeeperTest, ATakeOverWhoseTakerDiedIsCarriedOn) {
  table_.rows[8] = {.state = 3, .has_open = false};
  table_.rows[9] = {.state = 2, .taken_by = 8, .left = 1};
  RunFor(milliseconds(1'500));
  EXPECT_THAT(table_.adopted, ElementsAre(9));
  EXPECT_EQ(table_.rows[9].state, 3);
}

TEST_F(StreamKeeperTest, ATakeOverGoesOnOnceTheDatabaseIsBack) {
  table_.rows[9] = {.left = 1};
  keeper_.TakeOver(9);
  table_.is_away = true;
  RunFor(milliseconds(10'000));
  EXPECT_TRUE(keeper_.is_taking());
  table_.is_away = false;
  RunFor(milliseconds(2'500));
  EXPECT_FALSE(keeper_.is_taking());
  EXPECT_EQ(table_.rows[9].state, 3);
}

TEST_F(StreamKeeperTest, ADatabaseThatWasAwayMakesNobodyDead) {
  table_.rows[9] = {};
  RunFor(milliseconds(6'000));
  table_.is_away = true;
  RunFor(milliseconds(20'000));
  table_.is_away = false;
  RunFor(milliseconds(6'000));
  EXPECT_TRUE(table_.declared.empty());
  ++table_.rows[9].beat;
  RunFor(milliseconds(6'000));
  EXPECT_TRUE(table_.declared.empty());
}

}  // namespace
}  // namespace recourse::stream_keeper_test
