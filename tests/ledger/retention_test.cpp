// What retention keeps, what it forgets, and that no stop in its middle changes that.
#include "filters/ledger/rules/retention.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "tests/ledger/ages.h"

namespace recourse::retention_test {
namespace {

using Kind = Begun::Kind;

INSTANTIATE_TEST_SUITE_P(Index, Ages, testing::Bool(),
                         [](const auto& with) { return with.param ? "LostAtRestart" : "Kept"; });

TEST_P(Ages, AnAnswerIsReplayedForTheRetentionThenRefusedThenForgotten) {
  Succeed(Call("paid"));
  Live(kDay * 6);
  EXPECT_EQ(Begin(Call("paid")).event.answer.body, "{\"id\":7}");
  Live(kDay * 2);
  const Begun expired = Begin(Call("paid", "trace-2", "other args"));
  EXPECT_EQ(expired.kind, Kind::kExpired);
  EXPECT_EQ(expired.event.phase, Phase::kTombstone);
  EXPECT_EQ(expired.event.operation, 2U);
  Restart();
  EXPECT_EQ(Repeat("paid"), Kind::kExpired);
  Live(kDay * 88);
  EXPECT_EQ(Repeat("paid"), Kind::kExpired);
  Restart();
  EXPECT_EQ(Repeat("paid"), Kind::kExpired);
  Live(kDay * 12);
  EXPECT_EQ(engine_->Stats().tombstones, 0U);
  EXPECT_EQ(Begin(Call("paid")).event.attempt, 1);
  EXPECT_TRUE(Verify().ok) << Verify().problem;
}

TEST_P(Ages, OnlyWhatMayHaveHadAnEffectLeavesATombstone) {
  End("refused", Phase::kRejected);
  End("unsent", Phase::kNotSent);
  Record(Move(End("absent", Phase::kUncertain), Phase::kProvenAbsent, Cause::kProbeAbsent));
  Succeed(Call("done"));
  End("lost", Phase::kAnswerLost);
  Live(kDay * 8);
  EXPECT_EQ(engine_->Stats().tombstones, 2U);
  Restart();
  EXPECT_EQ(Repeat("refused"), Kind::kFresh);
  EXPECT_EQ(Repeat("unsent"), Kind::kFresh);
  EXPECT_EQ(Repeat("absent"), Kind::kFresh);
  EXPECT_EQ(Repeat("done"), Kind::kExpired);
  EXPECT_EQ(Repeat("lost"), Kind::kExpired);
}

TEST_P(Ages, WhatStoodNoMoreLeavesNoTombstone) {
  const auto write = [](const char* key, WriteKind kind, bool is_named = false) {
    NewOperation call = Call(key);
    call.event.resource = DigestOf("doc");
    call.event.stands.kind = kind;
    call.event.stands.is_named = is_named;
    call.may_be_superseded = !is_named;
    return call;
  };
  Succeed(write("made", WriteKind::kPost));
  Succeed(write("named", WriteKind::kPost, true));
  Succeed(write("dropped", WriteKind::kDelete));
  EXPECT_EQ(Begin(write("made", WriteKind::kPost)).kind, Kind::kSuperseded);
  EXPECT_EQ(Begin(write("named", WriteKind::kPost, true)).kind, Kind::kReplay);
  Live(kDay * 8);
  Restart();
  EXPECT_EQ(Begin(write("dropped", WriteKind::kDelete)).kind, Kind::kExpired);
  EXPECT_EQ(Begin(write("named", WriteKind::kPost, true)).kind, Kind::kExpired);
  EXPECT_EQ(Begin(write("made", WriteKind::kPost)).kind, Kind::kFresh);
}

TEST_P(Ages, WhatIsOpenIsCarriedOnUntilItIsSettled) {
  NewOperation call = Call("unknown");
  call.event.settle = RenderedRequest{"GET", "/orders?ref=1", {}, ""};
  call.event.request = RenderedRequest{"POST", "/orders", {}, "{}"};
  Record(Move(Dispatch(std::move(call)), Phase::kUncertain, Cause::kTimeout));
  Live(kDay * 30);
  Restart();
  Begun unknown = Begin(Call("unknown"));
  EXPECT_EQ(unknown.kind, Kind::kUnknown);
  EXPECT_EQ(unknown.event.cause, Cause::kCarried);
  EXPECT_EQ(unknown.event.operation, 2U);
  ASSERT_TRUE(unknown.event.settle);
  EXPECT_EQ(engine_->Stats().uncertain, 1U);
  const Event kept = *FindEvent(engine_->log(), nullptr, 2).value();
  EXPECT_EQ(kept.phase, Phase::kUncertain);
  EXPECT_EQ(kept.request->body, "{}");  // so that it can still be sent again
  Record(Success(unknown.event));
  Live(kDay * 6);
  Restart();
  EXPECT_EQ(Repeat("unknown"), Kind::kReplay);
  Live(kDay * 2);
  EXPECT_EQ(Repeat("unknown"), Kind::kExpired);
  EXPECT_FALSE(FindEvent(engine_->log(), nullptr, 2).value());
}

TEST_P(Ages, AnOperationOutlivesItsFirstRow) {
  const Event begun = Dispatch(Call("slow"));
  const Event unknown = Record(Move(begun, Phase::kUncertain, Cause::kTimeout));
  Live(kDay * 7 - kDay / 2);
  Event done = Record(Success(unknown));
  Live(kDay * 2);  // the first rows are gone, the last is not
  EXPECT_GT(engine_->Stats().first_id, begun.id);
  Restart();
  EXPECT_EQ(engine_->StateOf(begun.operation)->phase, Phase::kSucceeded);
  Record(Move(done, Phase::kCompensated, Cause::kHuman));
  EXPECT_EQ(Repeat("slow"), Kind::kCompensated);
  Live(kDay * 8);
  EXPECT_EQ(Repeat("slow"), Kind::kExpired);
}

TEST_P(Ages, WindowsGoOnOverGenerationsThatAreForgotten) {
  const auto windowed = [] {
    NewOperation call = Call("w");
    call.dedupe_window = Millis(60'000);
    return call;
  };
  for (std::uint32_t generation = 0; generation < 3; ++generation) {
    const Event event = Succeed(windowed());
    EXPECT_EQ(event.generation, generation);
    EXPECT_EQ(Begin(windowed()).kind, Kind::kReplay);
    Live(kDay * 3);
  }
  Live(kDay * 2);  // generation 0 and 1 are gone, 2 is kept
  Restart();
  Event third = Succeed(windowed());
  EXPECT_EQ(third.generation, 3U);
  Live(kDay * 8);  // all of them
  Restart();
  const Event fourth = Succeed(windowed());
  EXPECT_EQ(fourth.generation, 4U);
  EXPECT_EQ(Begin(windowed()).kind, Kind::kReplay);
  Restart();
  EXPECT_EQ(Begin(windowed()).kind, Kind::kReplay);
  EXPECT_EQ(Begin(windowed()).event.operation, fourth.operation);
}

TEST_P(Ages, AWindowThatStillRunsIsRefusedLikeAnyKey) {
  NewOperation call = Call("long");
  call.dedupe_window = kDay * 30;
  Succeed(call);
  Live(kDay * 8);
  Restart();
  EXPECT_EQ(Begin(call).kind, Kind::kExpired);
  Live(kDay * 24);
  EXPECT_EQ(Dispatch(call).generation, 1U);
}

// The tombstone moves to a row that is written by the clock that jumped.
TEST_P(Ages, NoJumpOfTheWallClockEndsTheWindowOfATombstone) {
  NewOperation call = Call("long");
  call.dedupe_window = kDay * 60;
  for (const bool is_before_it_dies : {false, true}) {
    Succeed(call);
    if (is_before_it_dies) clock_.JumpWall(kDay * 3650);
    Live(kDay * 8);
    if (!is_before_it_dies) clock_.JumpWall(kDay * 3650);
    EXPECT_EQ(Begin(call).kind, Kind::kExpired);
    Live(kDay * 20);  // it moves, and moves again
    EXPECT_EQ(Begin(call).kind, Kind::kExpired) << is_before_it_dies;
    clock_.JumpWall(-kDay * 3650);
    EXPECT_EQ(Begin(call).kind, Kind::kExpired);
    Live(kDay * 20);
    EXPECT_EQ(Begin(call).kind, Kind::kExpired) << is_before_it_dies;
    Live(kDay * 13);
  }
  EXPECT_EQ(Dispatch(call).generation, 2U);
}

// What was looked at before the damaged row is committed, so the next batch begins clean.
TEST_P(Ages, ADamagedRowStopsForgettingAndIsNamedAndHarmsNothingElse) {
  Record(Move(Dispatch(Call("open")), Phase::kUncertain, Cause::kTimeout));
  NewOperation call = Call("damaged");
  call.event.tool = "a tool with a name of its own";
  const Event damaged = Succeed(call);
  ASSERT_TRUE(engine_->log().StartCopy()) << "which moves its row into data.mdb";
  std::ifstream in(directory_.data() + "/data.mdb", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const int file = open((directory_.data() + "/data.mdb").c_str(), O_RDWR | O_CLOEXEC);
  for (auto at = bytes.find(call.event.tool); at != std::string::npos;
       at = bytes.find(call.event.tool, at + 1)) {
    ASSERT_EQ(pwrite(file, "X", 1, static_cast<off_t>(at)), 1);
  }
  close(file);
  clock_.Advance(kDay / 4);
  ASSERT_TRUE(engine_->Retire(kRule));
  clock_.Advance(kDay * 8);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(engine_->Retire(kRule));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("\"row\":\"" + std::to_string(damaged.id - 1) + "\""));
  EXPECT_EQ(engine_->batch_rows(), 0U);
  EXPECT_EQ(engine_->Stats().first_id, damaged.id - 1);
  EXPECT_EQ(Repeat("open"), Kind::kUnknown);
  EXPECT_EQ(Repeat("new"), Kind::kFresh);
}

TEST_P(Ages, ALaterMoveOfAnEarlierGenerationDoesNotBringItBack) {
  NewOperation call = Call("w");
  call.dedupe_window = Millis(60'000);
  Event first = Record(Move(Dispatch(call), Phase::kAnswerLost));
  clock_.Advance(kDay);
  Live(kDay * 5);
  const Event second = Succeed(call);
  EXPECT_EQ(second.generation, 1U);
  Record(Success(first));
  Live(kDay * 3);  // the rows of generation 0 that came before those of generation 1 are gone
  Restart();
  call.dedupe_window = kDay * 300;
  const Begun again = Begin(call);
  EXPECT_EQ(again.kind, Kind::kReplay);
  EXPECT_EQ(again.event.operation, second.operation);
  Live(kDay * 8);
  Restart();
  EXPECT_EQ(Begin(call).kind, Kind::kExpired);
}

TEST_P(Ages, AnAliasLeavesItsKeyToTheGenerationThatBeganBehindIt) {
  const auto untraced = [](Millis window) { return OfIntent("untraced", window); };
  const Event first = Succeed(OfIntent("traced", std::nullopt));
  EXPECT_EQ(Begin(untraced(kDay)).event.operation, first.operation);
  Live(kDay * 2);
  Restart();
  const Event second = Succeed(untraced(kDay));
  const auto expect_second = [&] {
    const Begun begun = Begin(untraced(kDay * 30));
    EXPECT_EQ(begun.kind, Kind::kReplay);
    EXPECT_EQ(begun.event.operation, second.operation);
  };
  Restart();
  expect_second();
  Live(kDay * 6);  // the alias and its operation are gone
  expect_second();
  Restart();
  expect_second();
  Live(kDay * 3);
  EXPECT_EQ(Begin(untraced(kDay * 30)).kind, Kind::kExpired);
  const Event third = Succeed(untraced(kDay));
  EXPECT_EQ(third.generation, second.generation + 1);
  Restart();
  EXPECT_EQ(Begin(untraced(kDay)).event.operation, third.operation);
  EXPECT_TRUE(Verify().ok);
}

// Of a key whose own operation had no effect, the call in its place did.
TEST_P(Ages, AForgottenAliasSpeaksForItsKeyAndNotWhatTheKeyWasBefore) {
  const NewOperation untraced = OfIntent("untraced", kDay * 30);
  const Event unsent = Record(Move(Dispatch(untraced), Phase::kNotSent));
  const Event second = Record(Move(Dispatch(OfIntent("traced", std::nullopt)), Phase::kUncertain));
  EXPECT_EQ(Begin(untraced).event.operation, second.operation);
  Record(Success(second));
  Live(kDay * 8);
  Restart();
  EXPECT_EQ(Begin(untraced).kind, Kind::kExpired);
  Live(kDay * 20);
  Restart();
  EXPECT_EQ(Begin(untraced).kind, Kind::kExpired);
  Live(kDay * 80);
  Restart();
  const Event fresh = Dispatch(untraced);
  EXPECT_NE(fresh.operation, unsent.operation);
  EXPECT_TRUE(Verify().ok);
}

// A flow holds its step for longer than what the step's key came to mean is remembered.
TEST_P(Ages, AStepThatItsFlowHoldsOutlivesTheAliasOfItsKey) {
  NewOperation untraced = OfIntent("untraced", kDay);
  untraced.event.is_step = true;
  untraced.event.flow_name = "checkout";
  untraced.event.flow_has_deadline = true;
  const Event step = Succeed(untraced);
  Live(kDay * 2);
  const Event second = Record(Move(Dispatch(OfIntent("traced", std::nullopt)), Phase::kUncertain));
  EXPECT_EQ(Begin(untraced).event.operation, second.operation);
  Record(Success(second));
  for (const Millis time : {kDay * 20, kDay * 90, kDay * 90}) {
    Live(time);
    Restart();
    const auto found = engine_->StateOf(step.operation);
    ASSERT_TRUE(found) << found.error().detail();
    EXPECT_EQ(found->phase, Phase::kSucceeded);
  }
  untraced.event.flow = "flow-2";
  const Event fresh = Dispatch(untraced);
  EXPECT_NE(fresh.operation, step.operation);
  Restart();
  EXPECT_EQ(Begin(untraced).event.operation, fresh.operation);
  EXPECT_TRUE(engine_->StateOf(step.operation));
  EXPECT_TRUE(Verify().ok);
}

TEST_P(Ages, AnAliasMeansItsOperationAsLongAsThatIsKeptAndThenNothingNew) {
  NewOperation call = Call("k1", "trace-1");
  call.event.intent = DigestOf("intent");
  call.across_traces = AcrossTraces::kIfUnanswered;
  const Event event = Record(Move(Dispatch(call), Phase::kUncertain, Cause::kTimeout));
  NewOperation other = Call("k2", "trace-2");
  other.event.intent = DigestOf("intent");
  other.across_traces = AcrossTraces::kIfUnanswered;
  EXPECT_EQ(Begin(other).kind, Kind::kUnknown);
  Live(kDay * 20);
  Restart();
  EXPECT_EQ(Begin(other).kind, Kind::kUnknown);
  EXPECT_EQ(Begin(other).event.operation, event.operation);
  Record(Success(Begin(other).event));
  Live(kDay * 5);
  EXPECT_EQ(Repeat("k2"), Kind::kReplay);
  Live(kDay * 3);
  Restart();
  EXPECT_EQ(Repeat("k1"), Kind::kExpired);
  EXPECT_EQ(Repeat("k2"), Kind::kExpired);
  Live(kDay * 10);
  Restart();
  EXPECT_EQ(Repeat("k2"), Kind::kExpired);
  // The intent went with the answer: under a key that nobody used it is a new call.
  NewOperation third = Call("k3", "trace-3");
  third.event.intent = DigestOf("intent");
  third.across_traces = AcrossTraces::kIfUnanswered;
  EXPECT_EQ(Begin(third).kind, Kind::kFresh);
}

TEST_P(Ages, OnlyTimeLivedThroughCountsWhateverTheClockSaysBetweenRuns) {
  Succeed(Call("k"));
  clock_.Advance(kDay * 3650);  // no process: the first look after the start finds ten years gone
  Restart();
  RetireAll();
  EXPECT_EQ(Repeat("k"), Kind::kReplay);
  Live(kDay * 6);
  EXPECT_EQ(Repeat("k"), Kind::kReplay);
  Live(kDay * 2);
  EXPECT_EQ(Repeat("k"), Kind::kExpired);
}

TEST_P(Ages, VerifyStartsAtTheBaseAndListsGoOn) {
  for (int i = 0; i < 40; ++i) Succeed(Call("old" + std::to_string(i)));
  Live(kDay * 8);
  Succeed(Call("new"));
  Restart();
  const VerifyReport report = Verify();
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_GT(report.first_id, 80U);
  EXPECT_EQ(report.base.size(), 64U);
  EXPECT_EQ(report.rows, report.last_id - report.first_id + 1);
  EventFilter all;
  all.limit = 1000;
  const auto page = ListEvents(engine_->log(), nullptr, all);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->events.size(), 2U);
  EXPECT_FALSE(FindEvent(engine_->log(), nullptr, 2).value());
}

TEST_P(Ages, TombstonesShareRowsOfBoundedSizeHoweverOftenTheyMove) {
  constexpr int kCount = 3 * static_cast<int>(limits::kRetireTombstones) / 2;
  for (int i = 0; i < kCount; ++i) Succeed(Call("k" + std::to_string(i)));
  for (int week = 0; week < 6; ++week) {
    Live(kDay * 8);
    Succeed(Call("week" + std::to_string(week)));
  }
  Restart();
  EXPECT_GE(engine_->Stats().tombstones, static_cast<std::uint64_t>(kCount));
  const auto reader = engine_->log().NewReader();
  std::size_t longest = 0;
  ASSERT_TRUE(reader->Scan(1, 1'000'000, [&](std::uint64_t, std::string_view row) {
    longest = std::max(longest, row.size());
    return true;
  }));
  EXPECT_LE(longest, 100'000U);
  for (int i = 0; i < kCount; i += 97) {
    EXPECT_EQ(Repeat("k" + std::to_string(i)), Kind::kExpired) << i;
  }
  EXPECT_TRUE(Verify().ok);
}

TEST_P(Ages, AStepSaysWhenItCannotKeepUp) {
  const LedgerRule rule{.retention = Millis(10'000), .tombstones = Millis(10'000)};
  for (int i = 0; i < 1'500; ++i) Succeed(Call("k" + std::to_string(i)));
  clock_.Advance(Millis(200));
  ASSERT_TRUE(engine_->Retire(rule));
  clock_.Advance(Millis(11'000));
  EXPECT_FALSE(engine_->Retire(rule)->is_late);  // a little over is no reason to hurry
  clock_.Advance(Millis(3'000));
  const auto late = engine_->Retire(rule);
  EXPECT_TRUE(late->more && late->is_late);
  RetireAll(rule);
  EXPECT_FALSE(engine_->Retire(rule)->is_late);
}

TEST_P(Ages, FilesStopGrowing) {
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(2'000)};
  std::uint64_t early = 0;
  const auto bytes = [&](const char* name) {
    return std::filesystem::file_size(directory_.data() + name);
  };
  std::uint64_t early_index = 0;
  for (int i = 0; i < 20'000; ++i) {
    NewOperation call = Call("k" + std::to_string(i));
    call.event.intent = DigestOf(std::to_string(i));
    auto begun = engine_->Begin(call);
    ASSERT_TRUE(begun);
    Transition success = Success(begun->begun.event, std::string(500, 'x'));
    ASSERT_TRUE(engine_->Record(success));
    if (i % 100 == 99) {
      ASSERT_TRUE(engine_->Commit());
      Checkpoint();
      clock_.Advance(Millis(100));
      RetireAll(rule);
    }
    if (i == 8'000) {
      early = bytes("/data.mdb");
      early_index = bytes("/index/data.mdb");
    }
  }
  EXPECT_LT(bytes("/data.mdb"), early * 3 / 2);
  EXPECT_LT(bytes("/index/data.mdb"), early_index * 3 / 2);
  EXPECT_LT(engine_->Stats().rows, 10'000U);
  EXPECT_TRUE(Verify().ok);
}

}  // namespace
}  // namespace recourse::retention_test
