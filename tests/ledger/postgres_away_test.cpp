// What operators and auditors are told of a shared ledger while its database does not answer: that,
// and never that nothing is there, or that something was changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/open/shared_audit.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/queries/audit.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/shared_view.h"
#include "policy/uri/ledger_url.h"
#include "proxy/base/limits.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_away_test {
namespace {

constexpr std::string_view kAway = "the ledger's database does not answer";

class AwayTest : public PostgresUpkeepTest {
 protected:
  void SetUp() override { last_ = Finish(*cut_, "k"); }
  static SharedLedger At(const std::string& url) {
    return {.url = {.store = LedgerUrl::Store::kPostgres, .place = url}, .password_file = {}};
  }
  static NewOperation Step(std::string_view key) {
    NewOperation call = Call(key, "flow-1");
    call.event.is_step = true;
    return call;
  }
  LedgerAuditor& Auditor() { return dynamic_cast<LedgerAuditor&>(*cut_); }

  PostgresRelay relay_{SocketOf(url_)};
  const std::string through_ = UrlThrough(relay_.directory(), url_);
  const std::unique_ptr<Ledger> cut_ = OpenTestPostgres(through_, clock_);
  Event last_;
};

TEST_F(AwayTest, ItsChainIsNotSaidToBeBroken) {
  relay_.SetAway(true);
  const VerifyReport report = cut_->Verify();
  EXPECT_TRUE(report.is_away);
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.problem, kAway);
  EXPECT_EQ(report.check, "");
  relay_.SetAway(false);
  EXPECT_TRUE(cut_->Verify().ok);
}

TEST_F(AwayTest, ItsRowsAreNotSaidToHaveEnded) {
  ASSERT_FALSE(Auditor().Rows(0, last_.id, 100)->empty());
  relay_.SetAway(true);
  for (const std::uint64_t after : {std::uint64_t{0}, last_.id - 1}) {
    const auto rows = Auditor().Rows(after, last_.id, 100);
    ASSERT_FALSE(rows);
    EXPECT_EQ(rows.error().detail(), kAway);
  }
}

// A page whose places were found, and whose rows were not.
TEST_F(AwayTest, ARowThatCannotBeAskedForIsNotDamaged) {
  PgReader reader(PgOptions{.url = through_});
  PgEventLog log(reader, UnpackRowId(last_.id).stream);
  EXPECT_EQ(log.last_seq(), last_.id);
  EXPECT_FALSE(log.away());
  relay_.SetAway(true);
  std::string row;
  EXPECT_FALSE(log.NewReader()->Read(last_.id, row));
  ASSERT_TRUE(log.away());
  EXPECT_EQ(WhyUnread(log, last_.id).detail(), kAway);
}

// It goes once one row has been read.
class CutLog final : public PgEventLog {
 public:
  CutLog(PgReader& reader, std::uint64_t stream, PostgresRelay& relay)
      : PgEventLog(reader, stream), relay_(relay) {}
  std::unique_ptr<Reader> NewReader() override {
    return std::make_unique<CutReader>(PgEventLog::NewReader(), relay_);
  }

 private:
  class CutReader final : public Reader {
   public:
    CutReader(std::unique_ptr<Reader> whole, PostgresRelay& relay)
        : whole_(std::move(whole)), relay_(relay) {}
    bool Read(std::uint64_t seq, std::string& row) override { return whole_->Read(seq, row); }
    bool Scan(std::uint64_t from, std::size_t /*rows_max*/, const Visit& visit) override {
      const bool read = whole_->Scan(from, 1, visit);
      relay_.SetAway(true);
      return read;
    }

   private:
    const std::unique_ptr<Reader> whole_;
    PostgresRelay& relay_;
  };
  PostgresRelay& relay_;
};

TEST_F(AwayTest, AChainOfWhichTheRestCannotBeReadIsNotBroken) {
  PgReader reader(PgOptions{.url = through_});
  CutLog log(reader, UnpackRowId(last_.id).stream, relay_);
  const VerifyReport report = VerifyChain(log, last_.id, Digest{});
  EXPECT_TRUE(report.is_away);
  EXPECT_EQ(report.problem, kAway);
}

TEST_F(AwayTest, WhatItCountedLastIsToldAsThat) {
  Dispatch(*cut_, Step("open"));
  const LedgerStats before = cut_->Stats();
  EXPECT_FALSE(before.is_away);
  EXPECT_EQ(before.flows_open, 1U);
  ASSERT_TRUE(before.counted_ms);
  relay_.SetAway(true);
  clock_.Advance(Millis(5'000));
  const LedgerStats after = cut_->Stats();
  EXPECT_TRUE(after.is_away);
  EXPECT_EQ(after.flows_open, 1U);
  EXPECT_EQ(after.used_bytes, before.used_bytes);
  EXPECT_EQ(after.counted_ms, before.counted_ms);
  relay_.SetAway(false);
}

TEST_F(AwayTest, WhatItCountedAtItsStartIsKnown) {
  Dispatch(*cut_, Step("open"));
  const auto fresh = OpenTestPostgres(through_, clock_);
  relay_.SetAway(true);
  EXPECT_EQ(fresh->Stats().flows_open, 1U);
  relay_.SetAway(false);
}

TEST_F(AwayTest, WhatNobodySeesToIsNotForgotten) {
  auto& view = dynamic_cast<SharedLedgerView&>(*cut_);
  Execute("UPDATE stream SET open = 3, state = 1, at = now() - interval '1 hour' WHERE stream = " +
          std::to_string(UnpackRowId(Finish(*one_, "lost").id).stream));
  (void)cut_->Stats();
  const std::uint64_t before = view.SharedCounts().orphaned_work;
  EXPECT_GT(before, 0U);
  relay_.SetAway(true);
  (void)cut_->Stats();
  EXPECT_FALSE(view.SharedCounts().is_up);
  EXPECT_EQ(view.SharedCounts().orphaned_work, before);
  relay_.SetAway(false);
}

TEST_F(AwayTest, WhoeverWantsACopyIsToldWhatToBackUp) {
  const auto copy = cut_->StartCopy();
  ASSERT_FALSE(copy);
  EXPECT_NE(copy.error().find("is in a database, which is what to back up"), std::string::npos);
}

TEST_F(AwayTest, WhatWaitsForItDoesNotHurryTheNextTry) {
  const Event sent = Dispatch(*cut_, Call("sent"));
  Started<Result<Begun>> begins(cut_->Begin(Call("begins"), executor_));
  relay_.SetAway(true);
  Started<Result<Event>> outcome(cut_->Record(Success(sent, "answer"), executor_));
  cut_->MarkAnswered(AttemptId::Of(last_));
  const int before = relay_.connects();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(HappensSoon([&] { return relay_.connects() >= before + 40; }));
  // Pauses of 20, 40, 80, 160, 320, 640, 1,000 ms lie between the tries of the lane, and about 100
  // between those of who watches the others.
  EXPECT_GT(std::chrono::steady_clock::now() - start, Millis(1'000));
  relay_.SetAway(false);
  EXPECT_TRUE(outcome.Get(executor_));
  (void)begins.Get(executor_);
}

// Its batch was decided already, and did not arrive.
TEST_F(AwayTest, AnOutcomeIsWrittenWholeThoughItsWaiterWasTold) {
  Transition outcome = Success(Dispatch(*cut_, Call("sent")), "answer");
  outcome.told_by = clock_.Now();
  relay_.SetAway(true);
  Started<Result<Event>> recorded(cut_->Record(std::move(outcome), executor_));
  const int before = relay_.connects();
  ASSERT_TRUE(HappensSoon([&] { return relay_.connects() > before; }));
  clock_.Advance(PgLedgerOptions().wait);
  EXPECT_EQ(recorded.Get(executor_).error().delivery(), Delivery::kUncertain);
  relay_.SetAway(false);
  Result<Begun> repeat = std::unexpected(Error());
  EXPECT_TRUE(HappensSoon([&] {
    repeat = TryBegin(*other_, Call("sent"));
    return repeat && repeat->kind == Begun::Kind::kReplay;
  }));
  EXPECT_EQ(repeat->event.answer.body, "answer");
  EXPECT_EQ(repeat->event.external_ref, "7");
  EXPECT_EQ(Problem(), "");
}

// A batch that takes longer than an answer may would be sent again for ever.
TEST_F(AwayTest, WhatHasWaitedGoesInBatchesOfBoundedSize) {
  constexpr std::size_t kLarge = 24;
  const std::string answer(limits::kAnswerKeptBytesMax, 'a');
  std::atomic<std::size_t> most = 0;
  const auto fresh = OpenTestPostgres(through_, clock_);
  fresh->OnCommit([&most](double, std::size_t rows) { most = std::max(most.load(), rows); });
  std::vector<Event> sent;
  for (std::size_t i = 0; i < kLarge; ++i) {
    sent.push_back(Dispatch(*fresh, Call("large" + std::to_string(i))));
  }
  relay_.SetAway(true);
  std::vector<std::unique_ptr<Started<Result<Event>>>> outcomes;
  for (const Event& event : sent) {
    outcomes.push_back(
        std::make_unique<Started<Result<Event>>>(fresh->Record(Success(event, answer), executor_)));
  }
  relay_.SetAway(false);
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome->Get(executor_));
  EXPECT_LE(most, limits::kCommitBatchBytesMax / answer.size() + 1);
  EXPECT_EQ(Problem(), "");
}

// A server that is stopped, or a network that drops what is sent.
class SilentTest : public AwayTest {
 protected:
  using Beginning = std::unique_ptr<Started<Result<Begun>>>;
  Beginning Start(std::string_view key) {
    return std::make_unique<Started<Result<Begun>>>(cut_->Begin(Call(key), executor_));
  }
  void ExpectUnsent(const Beginning& begin) {
    const auto told = begin->Get(executor_);
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().detail(), kAway);
    EXPECT_EQ(told.error().delivery(), Delivery::kNotSent);
  }
  bool IsUp() { return dynamic_cast<SharedLedgerView&>(*cut_).SharedCounts().is_up; }

  const Millis wait_ = PgLedgerOptions().wait;
};

TEST_F(SilentTest, WhatBeginsWaitsNoLongerThanItMay) {
  relay_.SetSilent(true);
  const Beginning sent = Start("sent");
  clock_.Advance(Millis(1));
  const Beginning queued = Start("queued");
  clock_.Advance(wait_ - Millis(1));
  ExpectUnsent(sent);
  EXPECT_TRUE(!queued->is_done() || !IsUp());  // it may have come too late to wait
  clock_.Advance(Millis(1));
  ExpectUnsent(queued);
  relay_.SetSilent(false);
  // What its client was told holds, whatever has arrived.
  for (const std::string_view key : {"sent", "queued"}) {
    EXPECT_TRUE(
        HappensSoon([&] { return TryBegin(*other_, Call(key))->kind == Begun::Kind::kFresh; }));
  }
  EXPECT_EQ(Problem(), "");
}

TEST_F(SilentTest, WhoeverWaitsForAnOutcomeIsToldWhenItsTimeIsOver) {
  Transition outcome = Success(Dispatch(*cut_, Call("sent")), "answer");
  outcome.told_by = clock_.Now() + 3 * wait_;
  relay_.SetSilent(true);
  Started<Result<Event>> recorded(cut_->Record(std::move(outcome), executor_));
  ASSERT_TRUE(HappensSoon([this] { return !IsUp(); }));
  clock_.Advance(2 * wait_);
  EXPECT_FALSE(recorded.is_done());
  clock_.Advance(wait_);
  const auto told = recorded.Get(executor_);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().detail(), kAway);
  EXPECT_EQ(told.error().delivery(), Delivery::kUncertain);
  relay_.SetSilent(false);
  // It is written all the same.
  EXPECT_TRUE(HappensSoon(
      [this] { return TryBegin(*other_, Call("sent"))->kind == Begun::Kind::kReplay; }));
  EXPECT_EQ(Problem(), "");
}

TEST_F(SilentTest, WhatIsOrderedHappensOnlyIfItIsOnItsWay) {
  const Event step = Dispatch(*cut_, Step("step"));
  FlowMove move{.caller = step.caller, .flow = step.flow, .reason = "r"};
  move.told_by = MonoTime();
  relay_.SetSilent(true);
  const Beginning blocks = Start("blocks");  // its batch is what is on its way
  ASSERT_TRUE(HappensSoon([this] { return !IsUp(); }));
  Started<Result<FlowState>> moved(cut_->MoveFlow(move, executor_));
  clock_.Advance(wait_);
  const auto told = moved.Get(executor_);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().detail(),
            std::string(kAway) + "; whether this was done shows once it does");
  EXPECT_EQ(told.error().delivery(), Delivery::kUncertain);
  ExpectUnsent(blocks);
  relay_.SetSilent(false);
  ASSERT_TRUE(HappensSoon([this] { return IsUp(); }));
  Finish(*cut_, "behind it");
  const auto flows = Await(cut_->Flows(0, 10, executor_), executor_);
  ASSERT_TRUE(flows) << flows.error().detail();
  ASSERT_EQ(flows->size(), 1U);
  EXPECT_EQ(flows->front().phase, FlowPhase::kOpen);
}

// A list is asked of the lane, a count of a thread beside it.
TEST_F(SilentTest, WhoeverReadsIsToldThatItDoesNotAnswer) {
  relay_.SetSilent(true);
  const Beginning sent = Start("sent");
  const auto flows = Await(cut_->Flows(0, 10, executor_), executor_);
  ASSERT_FALSE(flows);
  EXPECT_EQ(flows.error().detail(), kAway);
  EXPECT_TRUE(HappensSoon([this] { return cut_->Stats().is_away; }));
  EXPECT_FALSE(cut_->OwnStats().latched);
  clock_.Advance(wait_);
  ExpectUnsent(sent);
  relay_.SetSilent(false);
  EXPECT_TRUE(HappensSoon([this] { return !cut_->Stats().is_away; }));
}

TEST_F(SilentTest, AfterASecondWithoutAnAnswerNothingBegins) {
  relay_.SetSilent(true);
  const Beginning sent = Start("sent");
  ASSERT_TRUE(HappensSoon([this] { return !IsUp(); }));
  const Beginning late = Start("late");
  EXPECT_TRUE(late->is_done());
  ExpectUnsent(late);
  EXPECT_FALSE(sent->is_done());
  relay_.SetSilent(false);
  EXPECT_TRUE(HappensSoon([this] { return IsUp(); }));
  EXPECT_EQ(TryBegin(*cut_, Call("late"))->kind, Begun::Kind::kFresh);
  EXPECT_EQ(sent->Get(executor_)->kind, Begun::Kind::kFresh);
}

// An auditor, who has been listing streams a moment ago.
TEST_F(AwayTest, AnAuditSaysThatItKnowsNothing) {
  const SharedLedger place = At(through_);
  const auto audit = SharedAudit::Open(place, nullptr);
  ASSERT_TRUE(audit) << audit.error().why;
  const std::vector<SharedStream> streams = (*audit)->streams();
  ASSERT_FALSE(streams.empty());
  EXPECT_TRUE((*audit)->Verify(streams.back()).ok);
  relay_.SetAway(true);
  const VerifyReport report = (*audit)->Verify(streams.back());
  EXPECT_TRUE(report.is_away && !report.ok);
  const auto rows = (*audit)->Rows(streams.back(), 0, 100);
  const auto base = (*audit)->BaseOf(streams.back());
  const auto tables = (*audit)->CheckTables();
  const auto gaps = (*audit)->Gaps();
  ASSERT_TRUE(!rows && !base && !tables && !gaps);
  for (const std::string& said :
       {report.problem, rows.error(), base.error(), tables.error(), gaps.error()}) {
    EXPECT_TRUE(said.starts_with(std::string(kAway) + ": ")) << said;
  }
  EXPECT_TRUE(SharedAudit::Open(place, nullptr).error().is_away);
}

TEST_F(AwayTest, TablesThatAreNoneAreNotAway) {
  const auto audit = SharedAudit::Open(At(FreshPostgresUrl()), nullptr);
  ASSERT_FALSE(audit);
  EXPECT_FALSE(audit.error().is_away) << audit.error().why;
}

}  // namespace
}  // namespace recourse::postgres_away_test
