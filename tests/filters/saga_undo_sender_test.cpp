// One undo request: what it carries, when it may be repeated, what its answer leads to.
#include <gtest/gtest.h>

#include "filters/saga/undo_sender.h"
#include "tests/filters/saga_shop.h"

namespace recourse::saga_undo_sender_test {
namespace {

using Kind = UndoOutcome::Kind;

// A flow with one step that had its effect, about to be undone.
class Broken : public Checkout {
 public:
  explicit Broken(const std::string& kind, std::shared_ptr<Policy> draft = DraftOf(kCheckoutPolicy))
      : Checkout(std::move(draft)) {
    (void)Call(Write(kind));
    const FlowState state = Flow();
    MoveTo(state, state.phase, FlowPhase::kBreaking);
    MoveTo(state, FlowPhase::kBreaking, FlowPhase::kUndoing);
    upstream.writes.clear();
  }
  UndoOutcome Try(bool by_human = false, int attempts_max = 10) {
    UndoSender sender({ledger,
                       upstream,
                       loop.executor(),
                       loop.clock(),
                       [this](const std::string& file) { return Read(file); },
                       nullptr,
                       {},
                       [this]() -> std::unique_ptr<CallKeeper> {
                         if (!has_room) return nullptr;
                         return std::make_unique<RoomyKeeper>();
                       }});
    return loop.Run(sender.Try(StepEvent(), policy, attempts_max, by_human, 0));
  }
  // The step's last event that still has its undo.
  Event StepEvent() {
    Event found;
    for (const Event& event : Events()) {
      if (event.undoes == 0 && event.phase == Phase::kSucceeded) found = event;
    }
    return *loop.Run(ledger.Join(found.operation, loop.now(), loop.executor())).value();
  }
  Phase StepNow() { return StepPhase(0); }
  Phase UndoNow() { return Flow().steps.at(0).undo_phase; }

  std::map<std::string, std::string> secrets;

 private:
  void MoveTo(const FlowState& state, FlowPhase from, FlowPhase to) {
    FlowMove move{.number = state.number, .from = from, .to = to, .reason = "test"};
    if (from == FlowPhase::kCommitted) move.reopened = state;
    ASSERT_TRUE(loop.Run(ledger.MoveFlow(std::move(move), loop.executor())));
  }
  std::expected<std::string, std::string> Read(const std::string& file) {
    const auto at = secrets.find(file);
    if (at != secrets.end()) return at->second;
    return std::unexpected("cannot open " + file);
  }
};

TEST(UndoSenderTest, WhatSucceedsUndoesTheStepInTheSameCommit) {
  Broken world("orders");
  EXPECT_EQ(world.Try().kind, Kind::kDone);
  EXPECT_EQ(Sent(world), (std::vector<std::string>{"DELETE /orders/id-1"}));
  EXPECT_EQ(world.StepNow(), Phase::kCompensated);
  EXPECT_EQ(world.UndoNow(), Phase::kSucceeded);
  const auto events = world.Events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back().id, events[events.size() - 2].id + 1) << "nothing between the two";
  EXPECT_EQ(events.back().cause, Cause::kUndone);
}

TEST(UndoSenderTest, WithoutRoomForItsAnswerItWaitsAndUsesUpNoTry) {
  Broken world("orders");
  const std::size_t rows = world.Events().size();
  world.has_room = false;
  EXPECT_EQ(world.Try(false, 1).kind, Kind::kAgain);
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(world.Events().size(), rows);
  world.has_room = true;
  EXPECT_EQ(world.Try(false, 1).kind, Kind::kDone);
}

TEST(UndoSenderTest, RepeatedCompensation) {
  // An undo that succeeded is never sent again, whoever asks.
  for (const bool by_human : {false, true}) {
    Broken world("orders");
    UndoSender sender({world.ledger, world.upstream, world.loop.executor(), world.loop.clock(),
                       [](const std::string&) { return std::string("s"); }});
    const Event step = world.StepEvent();
    const auto once = [&] {
      return world.loop.Run(sender.Try(step, world.policy, 10, by_human, 0)).kind;
    };
    EXPECT_EQ(once(), Kind::kDone);
    EXPECT_EQ(once(), Kind::kDone) << "told from the log";
    EXPECT_EQ(world.upstream.writes.size(), 1U);
  }
}

TEST(UndoSenderTest, EmptyCompensation) {
  // What had no effect, or none that anybody knows of, is never undone.
  for (const Phase phase : {Phase::kUncertain, Phase::kRejected, Phase::kNotSent}) {
    Checkout world;
    const Told first = world.Call(Write("orders", "with"));
    ASSERT_EQ(first.status, 201);
    if (phase == Phase::kUncertain) world.instead.emplace("POST /ship", CutAfterSend());
    if (phase == Phase::kRejected) world.instead.emplace("POST /ship", Respond(422, "{}"));
    if (phase == Phase::kNotSent) world.upstream.script.assign(20, RefuseConnection());
    ToolOf(const_cast<Policy&>(*world.policy), "ship").breaks_flow = BreaksFlow::kNever;
    (void)world.Call(Write("shipments"));
    const FlowState state = world.Flow();
    ASSERT_EQ(state.steps.size(), 2U);
    ASSERT_EQ(state.steps[1].phase, phase);
    Event step = world.Events().back();
    step.undo = RenderedRequest{"DELETE", "/shipments/x", {}, ""};
    const auto move = [&](FlowPhase from, FlowPhase to) {
      return world.loop
          .Run(world.ledger.MoveFlow({.number = state.number, .from = from, .to = to, .reason = ""},
                                     world.loop.executor()))
          .has_value();
    };
    EXPECT_TRUE(move(FlowPhase::kOpen, FlowPhase::kBreaking));
    EXPECT_EQ(move(FlowPhase::kBreaking, FlowPhase::kUndoing), phase != Phase::kUncertain)
        << "nothing is undone before every outcome is known";
    world.upstream.writes.clear();
    world.upstream.script.clear();
    UndoSender sender({world.ledger, world.upstream, world.loop.executor(), world.loop.clock(),
                       [](const std::string&) { return std::string("s"); }});
    EXPECT_EQ(world.loop.Run(sender.Try(step, world.policy, 10, true, 0)).kind, Kind::kStuck);
    EXPECT_TRUE(world.upstream.writes.empty()) << NameOf(phase);
  }
}

TEST(UndoSenderTest, ARepeatableUndoIsSentAgainAfterAnUnknownOutcome) {
  Broken world("orders");
  world.instead.emplace("DELETE", CutAfterSend());
  world.instead.emplace("DELETE", Respond(500, "oops"));
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  EXPECT_EQ(world.UndoNow(), Phase::kUncertain);
  EXPECT_EQ(world.StepNow(), Phase::kSucceeded);
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  EXPECT_EQ(world.Try().kind, Kind::kDone);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

TEST(UndoSenderTest, AnUndoByKeyIsSentAgainUnderItsOwnKey) {
  Broken world("charges");
  world.instead.emplace("POST /v1/refunds", CutAfterSend());
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  EXPECT_EQ(world.Try().kind, Kind::kDone);
  ASSERT_EQ(world.upstream.writes.size(), 2U);
  const auto key = [&](std::size_t i) {
    const std::string* field =
        FindHeader(world.upstream.writes[i].request.headers, "Idempotency-Key");
    return field == nullptr ? std::string() : *field;
  };
  EXPECT_EQ(key(0).size(), 64U);
  EXPECT_EQ(key(0), key(1));
  EXPECT_NE(key(0), ToHex(world.Events().front().key)) << "not that of the forward call";
  EXPECT_EQ(world.upstream.writes[0].request.body, R"({"charge":"id-1"})");
}

TEST(UndoSenderTest, AnUndoThatMayNotBeRepeatedIsStuckWhenItsOutcomeIsUnknown) {
  Broken world("shipments");
  world.instead.emplace("DELETE", CutAfterSend());
  const UndoOutcome first = world.Try();
  EXPECT_EQ(first.kind, Kind::kStuck);
  EXPECT_NE(first.reason.find("may be repeated"), std::string::npos) << first.reason;
  const UndoOutcome second = world.Try();
  EXPECT_EQ(second.kind, Kind::kStuck);
  EXPECT_NE(second.reason.find("may be repeated"), std::string::npos) << second.reason;
  EXPECT_EQ(world.upstream.writes.size(), 1U) << "nothing is sent twice";
}

TEST(UndoSenderTest, AHumansWordIsGoodForOneTryOfWhatIsUnknownOrRefused) {
  for (const bool is_refused : {false, true}) {
    const auto fail = [&] { return is_refused ? Respond(422, "{}") : CutAfterSend(); };
    Broken world("shipments");
    world.instead.emplace("DELETE", fail());
    world.instead.emplace("DELETE", fail());
    EXPECT_EQ(world.Try().kind, Kind::kStuck);
    EXPECT_EQ(world.Try(true).kind, Kind::kStuck);
    EXPECT_EQ(world.upstream.writes.size(), 2U);
    EXPECT_EQ(world.Try(false).kind, Kind::kStuck);
    EXPECT_EQ(world.upstream.writes.size(), 2U) << "the next one needs another word";
    EXPECT_EQ(world.Try(true).kind, Kind::kDone);
  }
}

TEST(UndoSenderTest, ARefusedUndoIsStuckAndSaysWhy) {
  Broken world("orders");
  world.instead.emplace("DELETE", Respond(403, "{}"));
  const UndoOutcome outcome = world.Try();
  EXPECT_EQ(outcome.kind, Kind::kStuck);
  EXPECT_NE(outcome.reason.find("403"), std::string::npos) << outcome.reason;
  EXPECT_EQ(world.UndoNow(), Phase::kRejected);
  world.loop.Skip(Millis(24 * 3'600'000));
  EXPECT_EQ(world.Try().kind, Kind::kStuck) << "a refusal of an undo does not grow old";
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(UndoSenderTest, ABackendThatAsksForTimeGetsIt) {
  Broken world("shipments");
  world.instead.emplace("DELETE", Respond(429, "later", {{"Retry-After", "17"}}));
  world.instead.emplace("DELETE", Respond(429, "later", {{"Retry-After", "Fri, 01 Jan 2027"}}));
  const UndoOutcome first = world.Try();
  EXPECT_EQ(first.kind, Kind::kAgain) << "it was not taken on, so it may be sent again";
  EXPECT_EQ(first.pause, Millis(17'000));
  const UndoOutcome second = world.Try();
  EXPECT_EQ(second.kind, Kind::kAgain);
  EXPECT_LE(second.pause, limits::kUndoBackoffFirst * 2) << "a date is no number of seconds";
  EXPECT_EQ(world.Try().kind, Kind::kDone);
}

TEST(UndoSenderTest, TriesAreBounded) {
  Broken world("orders");
  for (int i = 0; i < 3; ++i) world.instead.emplace("DELETE", Respond(500, "oops"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.Try(false, 3).kind, Kind::kAgain);
  const UndoOutcome outcome = world.Try(false, 3);
  EXPECT_EQ(outcome.kind, Kind::kStuck);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
  EXPECT_EQ(world.Try(false, 4).kind, Kind::kDone) << "a human may allow more";
}

TEST(UndoSenderTest, ABackendThatCannotBeReachedIsTriedAgain) {
  Broken world("shipments");
  world.upstream.script = {RefuseConnection()};
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  EXPECT_EQ(world.UndoNow(), Phase::kNotSent);
  EXPECT_EQ(world.Try().kind, Kind::kDone);
}

TEST(UndoSenderTest, SecretsAreReadWhenTheUndoIsSentAndNeverShownOrStored) {
  const auto draft = DraftOf(kCheckoutPolicy);
  UndoRule& rule = *ToolOf(*draft, "order").undo;
  rule.secrets.push_back({"Authorization", "/run/secrets/shop", "Bearer "});
  Broken world("orders", draft);
  EXPECT_EQ(world.Try().kind, Kind::kAgain) << "the file is not there yet";
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(world.UndoNow(), Phase::kNotSent);
  EXPECT_EQ(world.Events().back().detail,
            "its credential Authorization: cannot open /run/secrets/shop");
  world.secrets["/run/secrets/shop"] = "c4nary";
  const Event step = world.StepEvent();
  const HttpRequest shown = UndoPreview(step, &rule, draft->backends[0]);
  const auto request = UndoRequest(step, &rule, draft->backends[0],
                                   [](const std::string&) { return std::string("c4nary"); });
  ASSERT_TRUE(request);
  EXPECT_EQ(*FindHeader(request->headers, "Authorization"), "Bearer c4nary");
  EXPECT_EQ(*FindHeader(shown.headers, "Authorization"), "(hidden)");
  EXPECT_EQ(world.Try().kind, Kind::kDone);
  ASSERT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(*FindHeader(world.upstream.writes[0].request.headers, "Authorization"),
            "Bearer c4nary");
  for (const Event& event : world.Events()) {
    EXPECT_EQ(event.detail.find("c4nary"), std::string::npos);
    if (!event.undo) continue;
    EXPECT_EQ(FindHeader(event.undo->headers, "Authorization"), nullptr);
  }
}

TEST(UndoSenderTest, NothingIsSentThatCannotBeRemembered) {
  Broken world("orders");
  world.ledger.begin_fails = true;
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  world.ledger.begin_fails = false;
  world.ledger.commit_fails = true;
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  EXPECT_TRUE(world.upstream.writes.empty());
}

TEST(UndoSenderTest, AnOutcomeThatCannotBeWrittenIsNotTakenForDone) {
  Broken world("orders");
  world.ledger.record_fails = true;
  EXPECT_EQ(world.Try().kind, Kind::kAgain);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.StepNow(), Phase::kSucceeded);
  EXPECT_EQ(world.UndoNow(), Phase::kDispatching);
}

TEST(UndoSenderTest, WithoutABackendAHumanIsAsked) {
  Broken world("orders");
  Event step = world.StepEvent();
  step.backend = "gone";
  UndoSender sender({world.ledger, world.upstream, world.loop.executor(), world.loop.clock(),
                     [](const std::string&) { return std::string("s"); }});
  const UndoOutcome outcome = world.loop.Run(sender.Try(step, world.policy, 10, false, 0));
  EXPECT_EQ(outcome.kind, Kind::kStuck);
  EXPECT_NE(outcome.reason.find("gone"), std::string::npos);
  EXPECT_EQ(world.loop.Run(sender.Try(step, nullptr, 10, false, 0)).kind, Kind::kStuck);
}

}  // namespace
}  // namespace recourse::saga_undo_sender_test
