// What a start makes of the journal that it finds: every picture that a kill, a power cut, a
// damaged block or somebody's hand may leave.
#include "filters/ledger/lmdb/journal_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "filters/ledger/rows/row_codec.h"

namespace recourse::journal_replay_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr JournalId kId{4, 2};
constexpr std::size_t kRing = 256 * 1024;

class JournalReplayTest : public testing::Test {
 protected:
  // A record of `rows` rows that follows on what was added before.
  void Add(std::size_t rows, std::size_t body = 10) {
    RowBatch batch;
    batch.first_seq = seq_ + 1;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t start = batch.bytes.size();
      Event event;
      event.id = ++seq_;
      event.tool = std::string(body, 't');
      event.operation = seq_;
      event.phase = Phase::kDispatching;
      AppendEventRow(batch.bytes, event, hash_, nullptr);
      hash_ = RowHash(std::string_view(batch.bytes).substr(start));
      batch.ends.push_back(batch.bytes.size());
      hashes_.push_back(hash_);
    }
    const std::string bytes(EncodeJournalRecord(kId, generation_, batch).bytes.view());
    at_.push_back(head_);
    ring_.replace(head_, bytes.size(), bytes);
    head_ += bytes.size();
  }
  // As it is found by a log that ends at row `last`.
  ReplayPlan Plan(std::uint64_t last) {
    content_.ring = ring_;
    return PlanReplay(state_, content_, last, last == 0 ? Digest{} : hashes_[last - 1]);
  }
  void FlipByte(std::size_t record, std::size_t at) {
    ring_[at_[record] + at] = static_cast<char>(ring_[at_[record] + at] ^ 1);
  }

  JournalState state_{3, true, kId};
  std::uint64_t generation_ = 3;
  std::string ring_ = std::string(kRing, '\0');
  JournalContent content_{kId, {3, JournalStep::kBegun}, {}};
  std::uint64_t seq_ = 0;
  Digest hash_{};
  std::vector<Digest> hashes_;
  std::size_t head_ = 0;
  std::vector<std::size_t> at_;
};

TEST_F(JournalReplayTest, RowsThatTheLogHasNotFollowOnItsLastOne) {
  for (const std::size_t rows : {1U, 3U, 40U}) Add(rows, 300);
  for (const std::uint64_t last : {0U, 1U, 4U, 44U}) {
    const ReplayPlan plan = Plan(last);
    EXPECT_EQ(plan.lost, "");
    EXPECT_EQ(plan.rows.first_seq, last + 1);
    EXPECT_EQ(plan.rows.size(), 44 - last);
    EXPECT_EQ(plan.generation, 4U);
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      EXPECT_EQ(RowHash(plan.rows.row(i)), hashes_[last + i]);
    }
  }
}

TEST_F(JournalReplayTest, OldRecordsAnywhereInTheRingMeanNothing) {
  Add(2);
  Add(2);
  head_ = 40 * kJournalBlockBytes;
  Add(1);
  EXPECT_EQ(Plan(4).rows.size(), 1U);
  EXPECT_THAT(Plan(4).lost, IsEmpty());
  EXPECT_EQ(Plan(5).rows.size(), 0U);
  EXPECT_THAT(Plan(5).lost, IsEmpty());
}

TEST_F(JournalReplayTest, ARecordThatWasBeingWrittenIsLeftOut) {
  Add(2);
  Add(3, 2'000);
  for (const std::size_t at : {0U, 60U, 3'000U, 5'000U}) {
    FlipByte(1, at);
    const ReplayPlan plan = Plan(0);
    EXPECT_EQ(plan.rows.size(), 2U) << at;
    EXPECT_THAT(plan.lost, IsEmpty());
    EXPECT_EQ(plan.is_torn, at != 0U) << at;
    FlipByte(1, at);
  }
}

TEST_F(JournalReplayTest, ADamagedRecordBeforeASoundOneIsALoss) {
  for (int i = 0; i < 4; ++i) Add(2);
  for (const std::size_t at : {0U, 60U}) {
    FlipByte(1, at);
    const ReplayPlan plan = Plan(0);
    EXPECT_EQ(plan.rows.size(), 2U);
    EXPECT_THAT(plan.lost, HasSubstr("rows from 5 on that do not follow on row 2"));
    EXPECT_THAT(Plan(4).lost, IsEmpty()) << "the log has what was in it";
    FlipByte(1, at);
  }
}

// Only one record is being written at a time, and only behind the last one that was confirmed.
TEST_F(JournalReplayTest, MoreThanOneDamagedRecordIsALoss) {
  for (int i = 0; i < 3; ++i) Add(2);
  for (const std::size_t before : {0U, 60U}) {
    FlipByte(1, before);
    FlipByte(2, 60);
    const ReplayPlan plan = Plan(0);
    EXPECT_EQ(plan.rows.size(), 2U);
    EXPECT_THAT(plan.lost, HasSubstr("behind row 2 are damaged"));
    FlipByte(1, before);
    FlipByte(2, 60);
  }
}

TEST_F(JournalReplayTest, AJournalThatDoesNotKnowItsGenerationIsALoss) {
  Add(2);
  for (const std::uint64_t stamp : {0U, 2U}) {
    content_.stamp.generation = stamp;
    EXPECT_THAT(Plan(2).lost, HasSubstr("older than data.mdb, or damaged")) << stamp;
  }
  for (const bool is_open : {true, false}) {
    state_.is_open = is_open;
    content_.stamp = {4};  // a start that was killed before the log noted it
    EXPECT_THAT(Plan(2).lost, IsEmpty());
    EXPECT_EQ(Plan(2).generation, 4U);
    content_.stamp = {4, JournalStep::kBegun};
    EXPECT_THAT(Plan(2).lost, HasSubstr("older copy"));
    EXPECT_EQ(Plan(2).generation, 5U);
    content_.stamp = {5};
    EXPECT_THAT(Plan(2).lost, HasSubstr("older copy"));
    EXPECT_EQ(Plan(2).generation, 6U);
  }
}

TEST_F(JournalReplayTest, AnotherFileIsAMissingOne) {
  Add(2);
  state_.id = JournalId{9};
  EXPECT_THAT(Plan(0).lost, HasSubstr("missing"));
  state_.is_open = false;
  EXPECT_THAT(Plan(2).lost, IsEmpty());
}

// It was made anew since: generations go on in it.
TEST_F(JournalReplayTest, ALaterFileTellsOfAnOlderCopyOfTheLogToo) {
  for (const bool is_open : {true, false}) {
    state_ = {3, is_open, JournalId{9}};
    ring_.assign(kRing, '\0');
    content_.stamp = {4};
    EXPECT_THAT(Plan(0).lost, Not(HasSubstr("older copy"))) << "a start was killed";
    content_.stamp = {4, JournalStep::kBegun};
    EXPECT_THAT(Plan(0).lost, HasSubstr("older copy"));
    content_.stamp = {0};
    head_ = seq_ = 0;
    generation_ = 4;
    Add(1);
    EXPECT_THAT(Plan(0).lost, HasSubstr("older copy"));
    EXPECT_EQ(Plan(0).generation, 5U);
  }
}

// What went into data.mdb by itself since the copy was made is in no record.
TEST_F(JournalReplayTest, AnOpenLogBesideAJournalThatWasClosedIsAnOlderCopy) {
  Add(2);
  content_.stamp.step = JournalStep::kClosed;
  for (const std::uint64_t last : {0U, 2U}) EXPECT_THAT(Plan(last).lost, HasSubstr("older copy"));
  EXPECT_EQ(Plan(0).rows.size(), 2U) << "what there is of it is taken";
  state_.is_open = false;
  EXPECT_THAT(Plan(2).lost, IsEmpty());
}

// No damage, as the record is sound: whoever went back to an older version is not told of a loss.
TEST_F(JournalReplayTest, ARowThatALaterVersionWroteIsNoLoss) {
  Add(2);
  RowBatch batch;
  batch.first_seq = 3;
  batch.bytes = "of another kind";
  batch.ends.push_back(batch.bytes.size());
  const std::string bytes(EncodeJournalRecord(kId, generation_, batch).bytes.view());
  ring_.replace(head_, bytes.size(), bytes);
  EXPECT_THAT(Plan(0).unreadable, HasSubstr("row 3 of its journal is unknown"));
  EXPECT_THAT(Plan(2).unreadable, HasSubstr("row 3"));
  hashes_.resize(3);
  EXPECT_THAT(Plan(3).unreadable, IsEmpty()) << "the log has it";
}

TEST_F(JournalReplayTest, RowsThatDoNotFollowOnTheLogAreALoss) {
  Add(4);
  Add(2);
  EXPECT_THAT(Plan(2).lost, HasSubstr("rows from 1 on")) << "half of a record is never in the log";
  hashes_[3] = Digest{};
  EXPECT_THAT(Plan(4).lost, HasSubstr("rows from 5 on"));
  EXPECT_EQ(Plan(4).rows.size(), 0U);
  head_ = 50 * kJournalBlockBytes;
  seq_ = 10;
  Add(1);
  hashes_.resize(20);
  EXPECT_THAT(Plan(6).lost, Not(IsEmpty()));
}

TEST_F(JournalReplayTest, AnOlderCopyOfTheLogIsALoss) {
  Add(2);
  generation_ = 5;
  Add(2);
  for (const bool is_open : {true, false}) {
    state_.is_open = is_open;
    const ReplayPlan plan = Plan(2);
    EXPECT_THAT(plan.lost, HasSubstr("older copy"));
    EXPECT_EQ(plan.rows.size(), 0U);
    EXPECT_EQ(plan.generation, 6U) << "never one that is in the ring";
  }
}

TEST_F(JournalReplayTest, AClosedJournalHasNothingThatTheLogHasNot) {
  Add(2);
  state_.is_open = false;
  EXPECT_THAT(Plan(2).lost, IsEmpty());
  EXPECT_EQ(Plan(2).generation, 4U);
  Add(1);
  EXPECT_THAT(Plan(2).lost, HasSubstr("which closed it"));
  EXPECT_EQ(Plan(2).rows.size(), 0U);
}

TEST_F(JournalReplayTest, RecordsOfAnEarlierGenerationAreNotTaken) {
  Add(2);
  Add(1);  // never confirmed, and the process ended
  state_.generation = content_.stamp.generation = 4;
  EXPECT_EQ(Plan(2).rows.size(), 0U);
  EXPECT_THAT(Plan(2).lost, IsEmpty());
}

TEST_F(JournalReplayTest, AMissingJournalIsALossUnlessItWasClosed) {
  EXPECT_THAT(PlanReplay({3, true, kId}, std::nullopt, 9, Digest{}).lost, HasSubstr("missing"));
  EXPECT_THAT(PlanReplay({3, false, kId}, std::nullopt, 9, Digest{}).lost, IsEmpty());
  EXPECT_EQ(PlanReplay({3, false, kId}, std::nullopt, 9, Digest{}).generation, 4U);
  EXPECT_THAT(PlanReplay({}, std::nullopt, 0, Digest{}).lost, IsEmpty());
}

}  // namespace
}  // namespace recourse::journal_replay_test
