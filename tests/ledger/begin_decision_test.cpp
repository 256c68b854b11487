#include "filters/ledger/rules/begin_decision.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ledger/ledger_test_support.h"

namespace recourse::begin_decision_test {
namespace {

using Kind = Begun::Kind;
using Target = BeginDecision::Target;
using enum Phase;

constexpr std::int64_t kNow = 10'000'000;

KeyEntry Entry(Phase phase, std::int64_t age_ms = 0, std::uint16_t attempt = 1) {
  KeyEntry entry;
  entry.operation = 5;
  entry.last_event = 6;
  entry.last_wall_ms = kNow - age_ms;
  entry.args_hash = DigestOf("args");
  entry.attempt = attempt;
  entry.phase = phase;
  return entry;
}

BeginDecision Decide(const NewOperation& call, const KeyEntry* same_key,
                     const KeyEntry* same_intent, std::int64_t now_ms = kNow) {
  return DecideBegin(call, {.same_key = same_key, .same_intent = same_intent, .now_ms = now_ms});
}

BeginDecision SameKey(const NewOperation& call, const KeyEntry& entry) {
  return Decide(call, &entry, nullptr);
}

// Tombstones x what had happened x windows: a key that may have had an effect is refused until its
// own window has ended; without an effect it starts anew.
TEST(BeginDecisionTest, ATombstoneRefusesUnlessNothingHappenedOrItsWindowEnded) {
  struct Row {
    Phase phase;
    std::optional<Millis> window;
    std::int64_t age_ms;
    BeginDecision expected;
  };
  constexpr std::int64_t kMoment = 1'000'000;
  const BeginDecision refused{.target = BeginDecision::Target::kSameKey,
                              .kind = Begun::Kind::kExpired};
  const BeginDecision anew{.generation = 4};
  const BeginDecision next{.generation = 5};
  const Row rows[] = {
      {Phase::kSucceeded, std::nullopt, 900'000, refused},
      {Phase::kAnswerLost, std::nullopt, 900'000, refused},
      {Phase::kCompensated, std::nullopt, 900'000, refused},
      {Phase::kDenied, std::nullopt, 900'000, anew},
      {Phase::kUncertain, std::nullopt, 900'000, refused},
      {Phase::kTombstone, std::nullopt, 900'000, refused},
      {Phase::kRejected, std::nullopt, 900'000, anew},
      {Phase::kNotSent, std::nullopt, 900'000, anew},
      {Phase::kProvenAbsent, std::nullopt, 900'000, anew},
      {Phase::kSucceeded, Millis(500), 500, refused},
      {Phase::kSucceeded, Millis(500), 501, next},
      {Phase::kUncertain, Millis(500), 501, next},
      {Phase::kRejected, Millis(500), 500, anew},
      {Phase::kRejected, Millis(500), 501, next},
      {Phase::kSucceeded, Millis(500), -9'999, refused},  // the clock went back
  };
  for (const Row& row : rows) {
    KeyEntry entry;
    entry.operation = 3;
    entry.last_wall_ms = kMoment - row.age_ms;
    entry.generation = 4;
    entry.phase = row.phase;
    entry.is_tombstone = true;
    NewOperation call;
    call.event.args_hash = Sha256("other than then");
    call.dedupe_window = row.window;
    call.across_traces = AcrossTraces::kIfUnanswered;
    EXPECT_EQ(Decide(call, &entry, nullptr, kMoment), row.expected)
        << NameOf(row.phase) << " aged " << row.age_ms;
  }
}

TEST(BeginDecisionTest, AnUnknownKeyIsFresh) {
  EXPECT_EQ(Decide(Call("k"), nullptr, nullptr), BeginDecision{});
}

TEST(BeginDecisionTest, EveryPhaseAnswersARepeat) {
  struct Row {
    Phase phase;
    Kind kind;
    int attempt;  // of a fresh one
  };
  for (const Row& row : std::vector<Row>{{kDispatching, Kind::kRunning, 0},
                                         {kUncertain, Kind::kUnknown, 0},
                                         {kSucceeded, Kind::kReplay, 0},
                                         {kAnswerLost, Kind::kReplay, 0},
                                         {kRejected, Kind::kReplay, 0},
                                         {kNotSent, Kind::kFresh, 2},
                                         {kProvenAbsent, Kind::kFresh, 2},
                                         {kCompensated, Kind::kCompensated, 0},
                                         {kTombstone, Kind::kExpired, 0},
                                         {kDenied, Kind::kReplay, 0},
                                         {kExpired, Kind::kReplay, 0}}) {
    const BeginDecision decision = SameKey(Call("k"), Entry(row.phase));
    EXPECT_EQ(decision.kind, row.kind) << NameOf(row.phase);
    EXPECT_EQ(decision.target, Target::kSameKey) << NameOf(row.phase);
    if (row.kind == Kind::kFresh) EXPECT_EQ(decision.attempt, row.attempt) << NameOf(row.phase);
  }
}

TEST(BeginDecisionTest, OtherArgumentsAreJudgedUnlessNothingHappened) {
  for (int i = 1; i < kPhaseCount; ++i) {
    const auto phase = static_cast<Phase>(i);
    if (phase == kNotSent || phase == kRejected || phase == kProvenAbsent) continue;
    if (phase == kDenied || phase == kExpired) continue;
    NewOperation call = Call("k", "trace-1", "other args");
    EXPECT_EQ(SameKey(call, Entry(phase)).kind, Kind::kConflict) << NameOf(phase);
    call.on_mismatch = OnMismatch::kAsk;
    EXPECT_EQ(SameKey(call, Entry(phase)).kind, Kind::kSuspected) << NameOf(phase);
    call.on_mismatch = OnMismatch::kReplay;
    EXPECT_EQ(SameKey(call, Entry(phase)), SameKey(Call("k"), Entry(phase))) << NameOf(phase);
  }
}

TEST(BeginDecisionTest, WhoeverMendsWhatHadNoEffectIsNotRefused) {
  for (const Phase phase : {kNotSent, kRejected, kProvenAbsent}) {
    for (const OnMismatch rule : {OnMismatch::kReject, OnMismatch::kAsk, OnMismatch::kReplay}) {
      NewOperation call = Call("k", "trace-1", "other args");
      call.on_mismatch = rule;
      call.failed_ttl = Millis(60'000);
      const BeginDecision decision = SameKey(call, Entry(phase));
      EXPECT_EQ(decision.kind, Kind::kFresh) << NameOf(phase);
      EXPECT_EQ(decision.attempt, 2) << NameOf(phase);
    }
  }
}

TEST(BeginDecisionTest, OtherArgumentsThanThoseOfAQuestionAreAnotherOne) {
  for (const Phase phase : {kDenied, kExpired}) {
    for (const OnMismatch rule : {OnMismatch::kReject, OnMismatch::kAsk, OnMismatch::kReplay}) {
      NewOperation call = Call("k", "trace-1", "other args");
      call.on_mismatch = rule;
      EXPECT_EQ(SameKey(call, Entry(phase)), (BeginDecision{.generation = 1})) << NameOf(phase);
    }
  }
}

TEST(BeginDecisionTest, ANoHasItsTimeAndAnExpiryIsNone) {
  NewOperation call = Call("k");
  call.approval.emplace().expires = Millis(500);
  EXPECT_EQ(SameKey(call, Entry(kDenied, 500)).kind, Kind::kReplay);
  EXPECT_EQ(SameKey(call, Entry(kDenied, -9'999)).kind, Kind::kReplay) << "the clock went back";
  EXPECT_EQ(SameKey(call, Entry(kDenied, 501)), (BeginDecision{.generation = 1}));
  KeyEntry over = Entry(kExpired);
  over.cause = Cause::kExpired;
  EXPECT_EQ(SameKey(call, over), (BeginDecision{.generation = 1}));
  over.cause = Cause::kFlowClosed;
  EXPECT_EQ(SameKey(call, over).kind, Kind::kReplay);
}

KeyEntry OwnedBy(Principal owner, Phase phase, bool is_answered = false) {
  KeyEntry entry = Entry(phase);
  entry.principal = owner;
  entry.is_answered = is_answered;
  return entry;
}

NewOperation CallBy(Principal asks) {
  NewOperation call = Call("k");
  call.event.principal = asks;
  return call;
}

TEST(BeginDecisionTest, NobodyIsShownWhatOtherCredentialsWereAnswered) {
  struct Row {
    Phase phase;
    Kind kind;
  };
  // 0: an earlier version did not write down whose it was.
  for (const Principal owner : {Principal{7}, kNoPrincipal}) {
    for (const Row& row : {Row{kClaimed, Kind::kHeld},
                           {kApproved, Kind::kHeld},
                           {kDenied, Kind::kReplay},
                           {kExpired, Kind::kReplay},
                           {kDispatching, Kind::kOtherCredentials},
                           {kUncertain, Kind::kOtherCredentials},
                           {kSucceeded, Kind::kOtherCredentials},
                           {kAnswerLost, Kind::kOtherCredentials},
                           {kCompensated, Kind::kOtherCredentials},
                           {kNotSent, Kind::kFresh},
                           {kRejected, Kind::kFresh},
                           {kProvenAbsent, Kind::kFresh}}) {
      NewOperation call = CallBy(9);
      call.may_resend = true;
      call.failed_ttl = Millis(60'000);
      EXPECT_EQ(SameKey(call, OwnedBy(owner, row.phase)).kind, row.kind) << NameOf(row.phase);
      // Of another call with the same key they learn nothing but that it was made.
      call.event.args_hash = DigestOf("other");
      const bool is_new = row.kind == Kind::kFresh || row.kind == Kind::kReplay;
      const Kind other = is_new ? Kind::kFresh : Kind::kOtherCredentials;
      EXPECT_EQ(SameKey(call, OwnedBy(owner, row.phase)).kind, other) << NameOf(row.phase);
    }
  }
  EXPECT_EQ(SameKey(CallBy(7), OwnedBy(7, kSucceeded)).kind, Kind::kReplay);
  EXPECT_EQ(SameKey(CallBy(kNoPrincipal), OwnedBy(7, kSucceeded)).kind, Kind::kReplay);
}

TEST(BeginDecisionTest, UnderAnotherTraceOnlyTheSamePrincipalsRetryIsKnown) {
  const auto decide = [](NewOperation call, const KeyEntry& entry, bool waits,
                         std::int64_t now_ms = kNow) {
    call.across_traces = AcrossTraces::kIfUnanswered;
    return DecideBegin(call,
                       {.same_intent = &entry, .intent_client_waits = waits, .now_ms = now_ms});
  };
  const BeginDecision anew{};
  EXPECT_EQ(decide(CallBy(7), OwnedBy(7, kSucceeded), false).kind, Kind::kReplay);
  EXPECT_EQ(decide(CallBy(7), OwnedBy(7, kDispatching), false).kind, Kind::kRunning);
  EXPECT_EQ(decide(CallBy(7), OwnedBy(7, kUncertain), false).kind, Kind::kUnknown);
  EXPECT_EQ(decide(CallBy(9), OwnedBy(7, kSucceeded), false), anew);
  EXPECT_EQ(decide(CallBy(9), OwnedBy(7, kDispatching), false), anew);
  EXPECT_EQ(decide(CallBy(9), OwnedBy(7, kUncertain), false), anew);
  EXPECT_EQ(decide(CallBy(9), OwnedBy(7, kClaimed), false), anew);
  // The first client is still there: it is another call, unless the policy says what is the same.
  for (const Phase phase : {kDispatching, kUncertain, kSucceeded}) {
    EXPECT_EQ(decide(CallBy(7), OwnedBy(7, phase), true), anew) << NameOf(phase);
    NewOperation named = CallBy(7);
    named.has_identity = true;
    EXPECT_NE(decide(named, OwnedBy(7, phase), true), anew) << NameOf(phase);
  }
  const std::int64_t late = kNow + limits::kAcrossWindow.count() + 1;
  EXPECT_EQ(decide(CallBy(7), OwnedBy(7, kSucceeded), false, late), anew);
  EXPECT_EQ(decide(CallBy(7), OwnedBy(7, kUncertain), false, late), anew);
  EXPECT_EQ(decide(CallBy(7), OwnedBy(7, kDispatching), false, late).kind, Kind::kRunning);
  EXPECT_EQ(decide(CallBy(9), OwnedBy(kNoPrincipal, kUncertain), false).kind,
            Kind::kOtherCredentials);
}

TEST(BeginDecisionTest, WithoutAScopeOnlyARetryIsTheSameCall) {
  const auto decide = [](const KeyEntry& entry, bool waits, std::int64_t now_ms = kNow) {
    NewOperation call = CallBy(7);
    call.is_retry_only = true;
    return DecideBegin(call, {.same_key = &entry, .key_client_waits = waits, .now_ms = now_ms});
  };
  const BeginDecision anew{.generation = 1};
  EXPECT_EQ(decide(OwnedBy(7, kSucceeded), false).kind, Kind::kReplay);
  EXPECT_EQ(decide(OwnedBy(7, kSucceeded, true), false), anew);
  EXPECT_EQ(decide(OwnedBy(7, kSucceeded), true), anew);
  EXPECT_EQ(decide(OwnedBy(7, kDispatching), false).kind, Kind::kRunning);
  EXPECT_EQ(decide(OwnedBy(7, kDispatching), true), anew);
  EXPECT_EQ(decide(OwnedBy(7, kUncertain, true), false).kind, Kind::kUnknown);
  EXPECT_EQ(decide(OwnedBy(7, kClaimed), true).kind, Kind::kHeld);
  const std::int64_t late = kNow + limits::kAcrossWindow.count() + 1;
  EXPECT_EQ(decide(OwnedBy(7, kUncertain), false, late), anew);
}

TEST(BeginDecisionTest, AnAnswerIsReplayedOnlyWhileItsEffectStands) {
  const auto decide = [](WriteKind kind, Phase phase, bool is_answered, bool may_be = true) {
    NewOperation call = CallBy(7);
    call.may_be_superseded = may_be;
    call.event.stands.kind = kind;
    const KeyEntry entry = OwnedBy(7, phase, is_answered);
    return DecideBegin(call, {.same_key = &entry, .key_ended = Ended::kYes, .now_ms = kNow});
  };
  const BeginDecision anew{.generation = 1};
  for (const WriteKind kind : {WriteKind::kPut, WriteKind::kPost}) {
    for (const Phase phase : {kSucceeded, kAnswerLost, kCompensated}) {
      EXPECT_EQ(decide(kind, phase, true), anew);
    }
    EXPECT_EQ(decide(kind, kSucceeded, true, false).kind, Kind::kReplay);
    EXPECT_EQ(decide(kind, kUncertain, true).kind, Kind::kUnknown);
    EXPECT_EQ(decide(kind, kDispatching, true).kind, Kind::kRunning);
  }
  EXPECT_EQ(decide(WriteKind::kPut, kSucceeded, false), anew);
  EXPECT_EQ(decide(WriteKind::kPost, kSucceeded, false).kind, Kind::kSuperseded);
  EXPECT_EQ(decide(WriteKind::kPost, kCompensated, false).kind, Kind::kCompensated);
}

TEST(BeginDecisionTest, ARetryUnderAnotherTraceOfWhatStandsNoMoreIsToldSo) {
  const auto decide = [](WriteKind kind, Principal owner) {
    NewOperation call = CallBy(7);
    call.across_traces = AcrossTraces::kIfUnanswered;
    call.may_be_superseded = true;
    call.event.stands.kind = kind;
    const KeyEntry entry = OwnedBy(owner, kSucceeded, false);
    return DecideBegin(call, {.same_intent = &entry, .intent_ended = Ended::kYes, .now_ms = kNow});
  };
  EXPECT_EQ(decide(WriteKind::kPost, 7).kind, Kind::kSuperseded);
  EXPECT_EQ(decide(WriteKind::kPut, 7), BeginDecision{});
  EXPECT_EQ(decide(WriteKind::kPost, 8), BeginDecision{});
}

TEST(BeginDecisionTest, AnUnknownOutcomeIsSentAgainOnlyWhereTheBackendDeduplicates) {
  NewOperation call = Call("k");
  EXPECT_EQ(SameKey(call, Entry(kUncertain)).kind, Kind::kUnknown);
  call.may_resend = true;
  EXPECT_EQ(SameKey(call, Entry(kUncertain)),
            (BeginDecision{.target = Target::kSameKey, .kind = Kind::kFresh, .attempt = 2}));
  call.attempts_max = 3;
  EXPECT_EQ(SameKey(call, Entry(kUncertain, 0, 2)).kind, Kind::kFresh);
  EXPECT_EQ(SameKey(call, Entry(kUncertain, 0, 3)).kind, Kind::kUnknown);
}

TEST(BeginDecisionTest, OtherArgumentsAreNeverSentOverAnUnknownOutcome) {
  NewOperation call = Call("k", "trace-1", "other args");
  call.on_mismatch = OnMismatch::kReplay;
  call.may_resend = true;
  EXPECT_EQ(SameKey(call, Entry(kUncertain)).kind, Kind::kUnknown);
}

TEST(BeginDecisionTest, ARefusalIsReplayedUntilItsTimeIsOver) {
  NewOperation call = Call("k");
  call.failed_ttl = Millis(60'000);
  EXPECT_EQ(SameKey(call, Entry(kRejected, 60'000)).kind, Kind::kReplay);
  EXPECT_EQ(SameKey(call, Entry(kRejected, 60'001)).kind, Kind::kFresh);
  EXPECT_EQ(SameKey(call, Entry(kRejected, -3'600'000)).kind, Kind::kReplay);  // clock went back
}

TEST(BeginDecisionTest, ARefusalThatIsNotReplayedIsNoneAlsoWhenTheClockWentBack) {
  NewOperation call = Call("k");
  call.failed_ttl.reset();
  for (const std::int64_t age_ms : {1, 0, -3'600'000}) {
    EXPECT_EQ(SameKey(call, Entry(kRejected, age_ms)).kind, Kind::kFresh) << age_ms;
  }
}

TEST(BeginDecisionTest, ARefusalForNowIsNeverReplayed) {
  NewOperation call = Call("k");
  call.failed_ttl = Millis(60'000);
  KeyEntry entry = Entry(kRejected);
  entry.cause = Cause::kRejectedNow;
  EXPECT_EQ(SameKey(call, entry).kind, Kind::kFresh);
}

TEST(BeginDecisionTest, RefusalsThatAreFreeGoOnWithAnotherOperation) {
  NewOperation call = Call("k");
  call.failed_ttl.reset();
  call.refusals_are_free = true;
  for (const Phase phase : {kRejected, kNotSent}) {
    EXPECT_EQ(SameKey(call, Entry(phase, 0, limits::kRefusedAttemptsMax - 1)).target,
              Target::kSameKey);
    EXPECT_EQ(SameKey(call, Entry(phase, 0, limits::kRefusedAttemptsMax)),
              (BeginDecision{.generation = 1}));
  }
}

TEST(BeginDecisionTest, AttemptsEndAtTheirLimit) {
  NewOperation call = Call("k");
  call.attempts_max = 3;
  for (const Phase phase : {kNotSent, kProvenAbsent}) {
    EXPECT_EQ(SameKey(call, Entry(phase, 0, 2)).attempt, 3);
    EXPECT_EQ(SameKey(call, Entry(phase, 0, 3)).kind, Kind::kExhausted);
  }
  EXPECT_EQ(SameKey(call, Entry(kRejected, 60'001, 3)).kind, Kind::kExhausted);
}

TEST(BeginDecisionTest, AWindowThatHasPassedStartsTheNextGeneration) {
  NewOperation call = Call("k");
  call.dedupe_window = Millis(1'000);
  for (const Phase phase :
       {kSucceeded, kAnswerLost, kRejected, kNotSent, kProvenAbsent, kCompensated, kTombstone}) {
    KeyEntry entry = Entry(phase, 1'000);
    EXPECT_EQ(SameKey(call, entry).generation, 0U) << NameOf(phase);
    entry = Entry(phase, 1'001);
    entry.generation = 4;
    EXPECT_EQ(SameKey(call, entry), (BeginDecision{.generation = 5})) << NameOf(phase);
    entry.args_hash = DigestOf("other");
    EXPECT_EQ(SameKey(call, entry), (BeginDecision{.generation = 5})) << NameOf(phase);
  }
}

TEST(BeginDecisionTest, AWindowNeverForgetsWhatIsNotSettled) {
  NewOperation call = Call("k");
  call.dedupe_window = Millis(1'000);
  EXPECT_EQ(SameKey(call, Entry(kDispatching, 1'000'000)).kind, Kind::kRunning);
  EXPECT_EQ(SameKey(call, Entry(kUncertain, 1'000'000)).kind, Kind::kUnknown);
}

TEST(BeginDecisionTest, TheSameIntentUnderAnotherTraceIsARetryUntilItWasAnswered) {
  struct Row {
    AcrossTraces rule;
    Phase phase;
    bool is_answered;
    bool same_args;
    Target target;
    Kind kind;
  };
  const std::vector<Row> rows = {
      {AcrossTraces::kIfUnanswered, kDispatching, false, true, Target::kSameIntent, Kind::kRunning},
      {AcrossTraces::kIfUnanswered, kUncertain, false, true, Target::kSameIntent, Kind::kUnknown},
      {AcrossTraces::kIfUnanswered, kSucceeded, false, true, Target::kSameIntent, Kind::kReplay},
      {AcrossTraces::kIfUnanswered, kAnswerLost, false, true, Target::kSameIntent, Kind::kReplay},
      {AcrossTraces::kIfUnanswered, kSucceeded, true, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kIfUnanswered, kAnswerLost, true, true, Target::kNew, Kind::kFresh},
      // What is not settled has not been answered, whatever its mark says.
      {AcrossTraces::kIfUnanswered, kDispatching, true, true, Target::kSameIntent, Kind::kRunning},
      {AcrossTraces::kIfUnanswered, kUncertain, true, true, Target::kSameIntent, Kind::kUnknown},
      {AcrossTraces::kAsk, kUncertain, true, true, Target::kSameIntent, Kind::kUnknown},
      {AcrossTraces::kNever, kUncertain, true, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kIfUnanswered, kNotSent, false, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kIfUnanswered, kRejected, false, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kIfUnanswered, kCompensated, false, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kAlways, kSucceeded, true, true, Target::kSameIntent, Kind::kReplay},
      {AcrossTraces::kAlways, kSucceeded, true, false, Target::kNew, Kind::kFresh},
      {AcrossTraces::kAlways, kNotSent, true, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kAsk, kSucceeded, false, true, Target::kSameIntent, Kind::kReplay},
      {AcrossTraces::kAsk, kSucceeded, true, true, Target::kSameIntent, Kind::kSuspected},
      {AcrossTraces::kAsk, kNotSent, true, true, Target::kNew, Kind::kFresh},
      {AcrossTraces::kNever, kSucceeded, false, true, Target::kNew, Kind::kFresh},
  };
  for (const Row& row : rows) {
    NewOperation call = Call("k", "trace-2", row.same_args ? "args" : "other args");
    call.across_traces = row.rule;
    KeyEntry entry = Entry(row.phase);
    entry.is_answered = row.is_answered;
    const BeginDecision decision = Decide(call, nullptr, &entry);
    const std::string name =
        std::string(NameOf(row.phase)) + " rule " + std::to_string(static_cast<int>(row.rule));
    EXPECT_EQ(decision.target, row.target) << name;
    EXPECT_EQ(decision.kind, row.kind) << name;
  }
}

TEST(BeginDecisionTest, OtherArgumentsUnderAnotherTraceAreJudgedWhileTheFirstAreUnanswered) {
  struct Row {
    AcrossTraces rule;
    Phase phase;
    bool is_answered;
    Kind reject, ask, replay;  // by on_mismatch; kFresh is a new operation
  };
  constexpr auto kNew = Kind::kFresh;
  for (const Row& row :
       std::vector<Row>{{AcrossTraces::kIfUnanswered, kDispatching, false, Kind::kConflict,
                         Kind::kSuspected, Kind::kRunning},
                        {AcrossTraces::kIfUnanswered, kUncertain, false, Kind::kConflict,
                         Kind::kSuspected, Kind::kUnknown},
                        {AcrossTraces::kIfUnanswered, kUncertain, true, Kind::kConflict,
                         Kind::kSuspected, Kind::kUnknown},
                        {AcrossTraces::kIfUnanswered, kSucceeded, false, Kind::kConflict,
                         Kind::kSuspected, Kind::kReplay},
                        {AcrossTraces::kIfUnanswered, kAnswerLost, false, Kind::kConflict,
                         Kind::kSuspected, Kind::kReplay},
                        {AcrossTraces::kAlways, kUncertain, false, Kind::kConflict,
                         Kind::kSuspected, Kind::kUnknown},
                        {AcrossTraces::kIfUnanswered, kSucceeded, true, kNew, kNew, kNew},
                        {AcrossTraces::kAlways, kSucceeded, true, kNew, kNew, kNew},
                        {AcrossTraces::kIfUnanswered, kNotSent, false, kNew, kNew, kNew},
                        {AcrossTraces::kIfUnanswered, kRejected, false, kNew, kNew, kNew},
                        {AcrossTraces::kNever, kUncertain, false, kNew, kNew, kNew}}) {
    KeyEntry entry = Entry(row.phase);
    entry.is_answered = row.is_answered;
    NewOperation call = Call("k", "trace-2", "other args");
    call.across_traces = row.rule;
    call.may_resend = true;  // never these bytes over those
    for (const auto& [on_mismatch, kind] :
         {std::pair(OnMismatch::kReject, row.reject), std::pair(OnMismatch::kAsk, row.ask),
          std::pair(OnMismatch::kReplay, row.replay)}) {
      call.on_mismatch = on_mismatch;
      const BeginDecision decision = Decide(call, nullptr, &entry);
      EXPECT_EQ(decision.kind, kind) << NameOf(row.phase) << " answered " << row.is_answered;
      EXPECT_EQ(decision.target, kind == kNew ? Target::kNew : Target::kSameIntent);
    }
  }
}

TEST(BeginDecisionTest, TheKeyItselfCountsBeforeTheIntentUnlessItIsAboutToBeSentAgain) {
  struct Row {
    Phase own, other;
    bool is_other_answered;
    Target target;
    Kind kind;
  };
  for (const Row& row :
       std::vector<Row>{{kSucceeded, kSucceeded, false, Target::kSameKey, Kind::kReplay},
                        {kUncertain, kSucceeded, false, Target::kSameKey, Kind::kUnknown},
                        {kRejected, kSucceeded, false, Target::kSameKey, Kind::kReplay},
                        {kNotSent, kSucceeded, false, Target::kSameIntent, Kind::kReplay},
                        {kNotSent, kDispatching, false, Target::kSameIntent, Kind::kRunning},
                        {kProvenAbsent, kUncertain, true, Target::kSameIntent, Kind::kUnknown},
                        {kProvenAbsent, kSucceeded, true, Target::kSameKey, Kind::kFresh},
                        {kProvenAbsent, kNotSent, false, Target::kSameKey, Kind::kFresh}}) {
    NewOperation call = Call("k");
    call.across_traces = AcrossTraces::kIfUnanswered;
    const KeyEntry own = Entry(row.own);
    KeyEntry other = Entry(row.other);
    other.operation = own.operation + 10;
    other.is_answered = row.is_other_answered;
    const BeginDecision decision = Decide(call, &own, &other);
    EXPECT_EQ(decision.target, row.target) << NameOf(row.own) << ", " << NameOf(row.other);
    EXPECT_EQ(decision.kind, row.kind) << NameOf(row.own) << ", " << NameOf(row.other);
    EXPECT_EQ(Decide(call, &own, &own), Decide(call, &own, nullptr));
  }
}

}  // namespace
}  // namespace recourse::begin_decision_test
