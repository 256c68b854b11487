// The ledger's thread: what it does when a commit fails, and how it batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "filters/ledger/commit/group_commit_ledger.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/limits.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::group_commit_test {
namespace {

using Kind = Begun::Kind;

// What a test does to commits. Outlives the log.
class CommitControl {
 public:
  void FailAfter(int commits) { passing_ = commits; }
  void FailNext() { FailAfter(0); }
  // From now on a commit waits.
  void Hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void Release() {
    {
      const std::lock_guard lock(mutex_);
      is_held_ = false;
    }
    changed_.notify_all();
  }
  void WaitUntilOneIsHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_waiting_; });
  }
  // From now on no row can be read in order.
  void DamageScans() { is_damaged_ = true; }
  bool MayScan() {
    ++scans_;
    return !is_damaged_;
  }
  int scans() const { return scans_; }
  void CountTurn() { ++turns_; }
  int turns() const { return turns_; }
  void WaitALittle() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(10));
  }
  bool PassesThrough() {
    std::unique_lock lock(mutex_);
    is_waiting_ = is_held_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_held_; });
    is_waiting_ = false;
    return passing_-- > 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;     // guarded by mutex_
  bool is_waiting_ = false;  // guarded by mutex_
  std::atomic<int> passing_ = 1'000'000;
  std::atomic<bool> is_damaged_ = false;
  std::atomic<int> scans_ = 0;
  std::atomic<int> turns_ = 0;
};

class ControlledLog final : public EventLog {
 public:
  explicit ControlledLog(CommitControl& control) : control_(control) {}
  std::expected<void, AppendError> Append(const RowBatch& batch) override {
    if (!control_.PassesThrough()) return std::unexpected(AppendError{"injected"});
    return log_.Append(batch);
  }
  std::unique_ptr<Reader> NewReader() override {
    return std::make_unique<ControlledReader>(log_.NewReader(), control_);
  }
  std::uint64_t last_seq() override { return log_.last_seq(); }
  LogBase base() override { return log_.base(); }
  std::string LoadAges() override { return log_.LoadAges(); }
  LogSizes sizes() override { return log_.sizes(); }
  LogSpace Space(std::uint64_t need) override { return log_.Space(need); }
  // Asked for whenever the ledger's thread has done something, or nothing.
  Digest identity() const override {
    control_.CountTurn();
    return {};
  }

 private:
  class ControlledReader final : public Reader {
   public:
    ControlledReader(std::unique_ptr<Reader> reader, CommitControl& control)
        : reader_(std::move(reader)), control_(control) {}
    bool Read(std::uint64_t seq, std::string& row) override { return reader_->Read(seq, row); }
    bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
      return control_.MayScan() && reader_->Scan(from, rows_max, visit);
    }

   private:
    const std::unique_ptr<Reader> reader_;
    CommitControl& control_;
  };

  CommitControl& control_;
  MemoryEventLog log_;
};

class GroupCommitTest : public testing::Test {
 protected:
  GroupCommitTest() {
    LedgerParts parts;
    parts.log = std::make_unique<ControlledLog>(control_);
    auto engine = StartEngine(std::move(parts), clock_);
    ledger_ = std::make_unique<GroupCommitLedger>(std::move(*engine), clock_);
  }
  ~GroupCommitTest() override { control_.Release(); }

  using BeginCall = Started<Result<Begun>>;
  std::unique_ptr<BeginCall> StartBegin(NewOperation call) {
    return std::make_unique<BeginCall>(ledger_->Begin(std::move(call), executor_));
  }
  Event Dispatch(NewOperation call) {
    const Begun begun = StartBegin(std::move(call))->Get(executor_).value();
    EXPECT_TRUE(Await(begun.commit->Durable(), executor_));
    return begun.event;
  }
  Result<Event> Record(Transition transition) {
    return Await(ledger_->Record(std::move(transition), executor_), executor_);
  }

  // The operations in rows of marks.
  std::vector<std::uint64_t> Marked() {
    std::vector<std::uint64_t> all;
    const auto rows = ledger_->Rows(0, ledger_->Stats().last_id, 100);
    for (const LoggedRow& row : rows.value()) {
      std::vector<std::uint64_t> operations;
      if (row.head.kind != RowKind::kAnswered) continue;
      EXPECT_TRUE(DecodeAnswered(*ParseRow(row.bytes), operations));
      all.insert(all.end(), operations.begin(), operations.end());
    }
    return all;
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  CommitControl control_;
  std::unique_ptr<GroupCommitLedger> ledger_;
};

TEST_F(GroupCommitTest, TheDecisionLeavesBeforeTheCommitAndTheDurableAfterIt) {
  control_.Hold();
  const Begun begun = StartBegin(Call("k"))->Get(executor_).value();
  EXPECT_EQ(begun.kind, Kind::kFresh);
  Started durable(begun.commit->Durable());
  control_.WaitUntilOneIsHeld();
  EXPECT_FALSE(durable.is_done());
  control_.Release();
  EXPECT_TRUE(durable.Get(executor_));
}

TEST_F(GroupCommitTest, MarksAreWrittenInTimeThoughNothingElseIsAsked) {
  std::vector<std::uint64_t> done;
  for (const char* key : {"a", "b", "c", "d"}) {
    done.push_back(Record(Success(Dispatch(Call(key)))).value().operation);
  }
  for (const std::size_t count : {1U, 3U, 4U}) {  // one that wakes it, some that need not
    for (std::size_t i = Marked().size(); i < count; ++i) ledger_->MarkAnswered({done[i], 1});
    clock_.Advance(limits::kAnsweredFlush);
    for (int i = 0; i < 6'000 && Marked().size() < count; ++i) control_.WaitALittle();
    EXPECT_EQ(Marked(), std::vector(done.begin(), done.begin() + static_cast<int>(count)));
  }
}

// The thread sleeps until the join is over; the mark must wake it where that would be too late.
TEST_F(GroupCommitTest, MarksAreWrittenInTimeBesideAJoinThatEndsSoonOrLate) {
  std::vector<std::uint64_t> done;
  for (const Millis deadline : {Millis(100), Millis(3'600'000)}) {
    const std::string name = std::to_string(deadline.count());
    done.push_back(Record(Success(Dispatch(Call("done " + name)))).value().operation);
    const Event running = Dispatch(Call("running " + name));
    Started join(ledger_->Join(running.operation, clock_.Now() + deadline, executor_));
    EXPECT_TRUE(StartBegin(Call("done " + name))->Get(executor_));  // the join was taken
    ledger_->MarkAnswered({done.back(), 1});
    clock_.Advance(limits::kAnsweredFlush);
    for (int i = 0; i < 6'000 && Marked().size() < done.size(); ++i) control_.WaitALittle();
    EXPECT_EQ(Marked(), done);
    EXPECT_TRUE(Record(Success(running)));
    EXPECT_TRUE(join.Get(executor_));
  }
}

TEST_F(GroupCommitTest, ARuleThatComesAfterRetentionFailedDoesNotKeepTheThreadBusy) {
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(1'000'000)};
  ASSERT_TRUE(Record(Success(Dispatch(Call("old")))));
  clock_.Advance(Millis(100));  // from now on the row has an age
  ledger_->SetRule(rule);
  // The second one is taken after the step that followed the first one.
  for (const char* key : {"a", "b"}) Dispatch(Call(key));
  control_.DamageScans();
  clock_.Advance(Millis(10'000));
  ledger_->SetRule(rule);
  for (int i = 0; i < 6'000 && control_.scans() == 0; ++i) control_.WaitALittle();
  ASSERT_EQ(control_.scans(), 1);
  for (const char* key : {"c", "d"}) Dispatch(Call(key));
  const int before = control_.turns();
  ledger_->SetRule(rule);
  constexpr int kTurnsMax = 10;  // for what was asked so far; nothing else happens
  for (int i = 0; i < 20 && control_.turns() <= before + kTurnsMax; ++i) control_.WaitALittle();
  EXPECT_LE(control_.turns(), before + kTurnsMax);
  EXPECT_EQ(control_.scans(), 1);  // what is damaged is not read again
}

TEST_F(GroupCommitTest, AnOrderDoesNotWaitForEverAndItsRowComesLater) {
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  const OperatorOrder order{"drain", "carol", "", "v1", {}};
  for (int i = 0; i < 2; ++i) {  // one in the queue, and one behind it
    const auto late = ledger_->RecordOrder(order);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code(), ErrorCode::kLedgerUnavailable);
    EXPECT_NE(late.error().detail().find("has not confirmed its row"), std::string::npos);
  }
  control_.Release();
  ASSERT_TRUE(blocker->Get(executor_));
  ASSERT_TRUE(ledger_->RecordOrder(order));
  const auto rows = ledger_->Rows(0, ledger_->Stats().last_id, 100);
  ASSERT_TRUE(rows);
  EXPECT_EQ(std::count_if(rows->begin(), rows->end(),
                          [](const LoggedRow& row) { return row.head.kind == RowKind::kOrder; }),
            3);
  EXPECT_TRUE(ledger_->Verify().ok);
}

TEST_F(GroupCommitTest, ABatchFormsWhileAnotherOneCommits) {
  control_.Hold();
  auto first = StartBegin(Call("first"));
  control_.WaitUntilOneIsHeld();
  std::vector<std::unique_ptr<BeginCall>> rest;
  for (int i = 0; i < 50; ++i) rest.push_back(StartBegin(Call("k" + std::to_string(i))));
  const std::uint64_t commits = ledger_->Stats().commits;
  control_.Release();
  for (const auto& begin : rest) {
    EXPECT_TRUE(Await(begin->Get(executor_).value().commit->Durable(), executor_));
  }
  EXPECT_TRUE(Await(first->Get(executor_).value().commit->Durable(), executor_));
  EXPECT_EQ(ledger_->Stats().commits, commits + 2);
}

TEST_F(GroupCommitTest, RepeatsInOneBatchSeeEachOtherAndWaitForTheCommit) {
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  auto one = StartBegin(Call("k"));
  auto two = StartBegin(Call("k"));
  control_.Release();
  const Begun fresh = one->Get(executor_).value();
  const Begun repeat = two->Get(executor_).value();
  EXPECT_EQ(fresh.kind, Kind::kFresh);
  EXPECT_EQ(repeat.kind, Kind::kRunning);
  EXPECT_EQ(repeat.event.id, fresh.event.id);
  EXPECT_EQ(repeat.event.trace_id, "trace-1");
}

TEST_F(GroupCommitTest, AReplayNeverLeavesBeforeItsOutcomeIsDurable) {
  const Event event = Dispatch(Call("k"));
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  Started record(ledger_->Record(Success(event), executor_));
  auto repeat = StartBegin(Call("k"));
  control_.FailAfter(1);
  control_.Release();
  // The batch with the outcome fails, so the repeat must not hear of it; nor that nothing was sent.
  const auto answered = repeat->Get(executor_);
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->kind, Kind::kUnknown);
  EXPECT_EQ(answered->event.phase, Phase::kUncertain);
  EXPECT_EQ(answered->event.operation, event.operation);
  EXPECT_FALSE(answered->event.answer_kept);
  EXPECT_FALSE(record.Get(executor_));
}

TEST_F(GroupCommitTest, ARepeatInTheBatchOfAFailedBeginningIsRefusedBecauseNothingWasSent) {
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  auto first = StartBegin(Call("k"));
  auto repeat = StartBegin(Call("k"));
  control_.FailAfter(1);
  control_.Release();
  EXPECT_EQ(first->Get(executor_).value().kind, Kind::kFresh);
  const auto refused = repeat->Get(executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
}

TEST_F(GroupCommitTest, ALatchedLedgerDoesNotSayThatAnUnknownCallWasNotSent) {
  const Event event = Dispatch(Call("k"));
  ASSERT_TRUE(Record(Move(event, Phase::kUncertain, Cause::kTimeout)));
  control_.FailNext();
  ASSERT_TRUE(StartBegin(Call("other"))->Get(executor_));
  NewOperation resend = Call("k");
  resend.may_resend = true;
  const auto begun = StartBegin(std::move(resend))->Get(executor_);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->kind, Kind::kUnknown);
  EXPECT_EQ(begun->event.operation, event.operation);
  const auto refused = StartBegin(Call("new"))->Get(executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
}

TEST_F(GroupCommitTest, AFailedCommitLatchesWritesAndLeavesReads) {
  const Event done = Dispatch(Call("done"));
  ASSERT_TRUE(Record(Success(done)));
  const Event running = Dispatch(Call("running"));
  Started join(ledger_->Join(running.operation, clock_.Now() + Millis(3'000), executor_));
  control_.FailNext();
  const Begun begun = StartBegin(Call("k"))->Get(executor_).value();
  const auto durable = Await(begun.commit->Durable(), executor_);
  ASSERT_FALSE(durable);
  EXPECT_EQ(durable.error().code(), ErrorCode::kLedgerUnavailable);
  EXPECT_TRUE(ledger_->Stats().latched);
  EXPECT_EQ(join.Get(executor_).error().code(), ErrorCode::kLedgerUnavailable);

  for (const char* key : {"k", "fresh"}) {
    const auto refused = StartBegin(Call(key))->Get(executor_);
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerUnavailable);
  }
  EXPECT_EQ(Record(Success(running)).error().code(), ErrorCode::kLedgerUnavailable);
  ledger_->MarkAnswered({done.operation, done.attempt});

  EXPECT_EQ(StartBegin(Call("done"))->Get(executor_).value().kind, Kind::kReplay);
  EXPECT_EQ(StartBegin(Call("running"))->Get(executor_).value().kind, Kind::kRunning);
  const auto joined =
      Await(ledger_->Join(done.operation, clock_.Now() + Millis(1), executor_), executor_);
  EXPECT_TRUE(joined && *joined);
  EXPECT_EQ(ledger_->List({}).value().events.size(), 3U);
  EXPECT_TRUE(ledger_->Verify().ok);
}

TEST_F(GroupCommitTest, AnOutcomeOfAFailedCommitIsNotToldLater) {
  const Event event = Dispatch(Call("k"));
  control_.FailNext();
  EXPECT_FALSE(Record(Success(event)));
  // Sent and perhaps executed: "refused" would say that it was not.
  const auto repeat = StartBegin(Call("k"))->Get(executor_);
  ASSERT_TRUE(repeat);
  EXPECT_EQ(repeat->kind, Begun::Kind::kUnknown);
  EXPECT_EQ(repeat->event.phase, Phase::kUncertain);
  EXPECT_EQ(repeat->event.operation, event.operation);
  EXPECT_FALSE(repeat->event.settle);
}

TEST_F(GroupCommitTest, ABeginningOfAFailedCommitIsRefusedLaterBecauseNothingWasSent) {
  control_.FailNext();
  auto first = StartBegin(Call("k"));
  ASSERT_TRUE(first->Get(executor_));
  const auto repeat = StartBegin(Call("k"))->Get(executor_);
  ASSERT_FALSE(repeat);
  EXPECT_EQ(repeat.error().code(), ErrorCode::kLedgerUnavailable);
}

// What comes behind it must not wait for room in it.
TEST_F(GroupCommitTest, AFullBatchThatFailsLeavesNobodyWaiting) {
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  std::vector<std::unique_ptr<BeginCall>> queued;
  for (std::size_t i = 0; i < limits::kCommitBatchMax + 10; ++i) {
    queued.push_back(StartBegin(Call(std::to_string(i))));
  }
  control_.FailAfter(1);
  control_.Release();
  ASSERT_TRUE(blocker->Get(executor_));
  for (std::size_t i = 0; i < queued.size(); ++i) {
    const auto begun = queued[i]->Get(executor_);
    EXPECT_EQ(begun.has_value(), i < limits::kCommitBatchMax) << i;
    if (begun) EXPECT_FALSE(Await(begun->commit->Durable(), executor_)) << i;
  }
  EXPECT_FALSE(StartBegin(Call("new"))->Get(executor_));
}

TEST_F(GroupCommitTest, ABatchOfLargeAnswersThatFailsLeavesNobodyWaiting) {
  constexpr std::size_t kAnswerBytes = 1'000'000;
  constexpr std::size_t kCount = limits::kCommitBatchBytesMax / kAnswerBytes + 3;
  std::vector<Event> events;
  for (std::size_t i = 0; i < kCount; ++i) events.push_back(Dispatch(Call(std::to_string(i))));
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  std::vector<std::unique_ptr<Started<Result<Event>>>> records;
  for (const Event& event : events) {
    records.push_back(std::make_unique<Started<Result<Event>>>(
        ledger_->Record(Success(event, std::string(kAnswerBytes, 'a')), executor_)));
  }
  control_.FailAfter(1);
  control_.Release();
  for (const auto& record : records) EXPECT_FALSE(record->Get(executor_));
  EXPECT_FALSE(StartBegin(Call("new"))->Get(executor_));
}

TEST_F(GroupCommitTest, TheQueueIsBoundedAndKeepsRoomForOutcomes) {
  const Event event = Dispatch(Call("k"));
  control_.Hold();
  auto blocker = StartBegin(Call("blocker"));
  control_.WaitUntilOneIsHeld();
  std::vector<std::unique_ptr<BeginCall>> queued;
  for (std::size_t i = 0; i < limits::kLedgerQueueMax; ++i) queued.push_back(StartBegin(Call("q")));
  const auto refused = StartBegin(Call("one more"))->Get(executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  Started record(ledger_->Record(Success(event), executor_));
  control_.Release();
  EXPECT_TRUE(record.Get(executor_));
  for (const auto& begin : queued) EXPECT_TRUE(begin->Get(executor_));
}

TEST_F(GroupCommitTest, TheObserverHearsEveryCommit) {
  std::atomic<std::size_t> rows = 0;
  ledger_->OnCommit([&rows](double seconds, std::size_t count) {
    EXPECT_GE(seconds, 0.0);
    rows += count;
  });
  ASSERT_TRUE(Record(Success(Dispatch(Call("k")))));
  EXPECT_EQ(rows, 2U);
}

TEST_F(GroupCommitTest, ClosingFinishesWhatIsQueuedAndEndsJoins) {
  const Event event = Dispatch(Call("k"));
  Started join(ledger_->Join(event.operation, clock_.Now() + Millis(3'000), executor_));
  auto begin = StartBegin(Call("k2"));
  ledger_.reset();
  const auto joined = join.Get(executor_);
  ASSERT_TRUE(joined);
  EXPECT_FALSE(*joined);
  EXPECT_TRUE(Await(begin->Get(executor_).value().commit->Durable(), executor_));
}

}  // namespace
}  // namespace recourse::group_commit_test
