// An outcome that brings its DISPATCHING event along comes to the same as one whose row is read.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::dispatching_event_test {
namespace {

// All that a row says of an event, but for the request, which ends with the outcome.
std::string WithoutRequest(Event event) {
  event.request.reset();
  event.request_left_out = false;
  std::string row;
  AppendEventRow(row, event, Digest{}, nullptr);
  return row;
}

// One call that fills every part of its row.
NewOperation FullCall(std::string_view key) {
  NewOperation call = Call(key);
  Event& event = call.event;
  event.intent = DigestOf("intent");
  event.window_ms = 60'000;
  call.dedupe_window = Millis(60'000);
  event.is_step = true;
  event.flow_name = "checkout";
  event.flow_has_deadline = true;
  event.dedupe_domain = 7;
  event.detail = "a detail";
  event.settle = RenderedRequest{"GET", "/orders?ref=1", {{"A", "b"}}, ""};
  event.request = RenderedRequest{"POST", "/orders", {{"Key", "k"}}, "{}"};
  return call;
}

class DispatchingEventTest : public testing::TestWithParam<Store> {
 protected:
  Event Dispatch(NewOperation call) {
    const Begun begun = *Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_EQ(begun.kind, Begun::Kind::kFresh);
    EXPECT_TRUE(Await(begun.commit->Durable(), executor_));
    return begun.event;
  }
  Event Record(Transition transition) {
    return *Await(ledger_->Record(std::move(transition), executor_), executor_);
  }
  Event Find(std::uint64_t id) { return **ledger_->Find(id); }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(DispatchingEventTest, ItSaysWhatItsRowSays) {
  const Event first = Dispatch(FullCall("k"));
  EXPECT_EQ(WithoutRequest(first), WithoutRequest(Find(first.id)));
  Record(Success(first));
  clock_.Advance(Millis(60'001));  // past its window: the key's next generation
  const Event second = Dispatch(FullCall("k"));
  ASSERT_EQ(second.generation, 1U);
  EXPECT_EQ(WithoutRequest(second), WithoutRequest(Find(second.id)));
  Record(Move(second, Phase::kNotSent, Cause::kConnectFailed));
  const Event again = Dispatch(FullCall("k"));
  ASSERT_EQ(again.attempt, 2);
  EXPECT_EQ(WithoutRequest(again), WithoutRequest(Find(again.id)));
}

TEST_P(DispatchingEventTest, EveryOutcomeIsTheOneOfAReadRow) {
  for (const Phase to : {Phase::kSucceeded, Phase::kAnswerLost, Phase::kNotSent, Phase::kRejected,
                         Phase::kUncertain}) {
    const std::string name(NameOf(to));
    std::vector<Event> outcomes;
    for (const bool brings : {false, true}) {
      Event begun = Dispatch(FullCall(name + (brings ? " brought" : " read")));
      Transition transition = Success(begun);
      transition.to = to;
      if (brings) transition.dispatching = &begun;
      const Event told = Record(std::move(transition));
      Event found = Find(told.id);
      EXPECT_EQ(told.request.has_value(), to == Phase::kUncertain) << name;
      EXPECT_EQ(found.request.has_value(), to == Phase::kUncertain) << name;
      EXPECT_EQ(WithoutRequest(told), WithoutRequest(found)) << name;
      found.key = found.base_key = Digest{};
      found.id = found.operation = 1;
      outcomes.push_back(std::move(found));
    }
    EXPECT_EQ(WithoutRequest(outcomes[0]), WithoutRequest(outcomes[1])) << name;
  }
}

TEST_P(DispatchingEventTest, AnEventThatIsNotTheLastOneIsNotTakenForIt) {
  const Event begun = Dispatch(FullCall("k"));
  Event other = begun;
  other.id -= 1;
  other.tool = "another.tool";
  Transition transition = Success(begun);
  transition.dispatching = &other;
  EXPECT_EQ(Record(std::move(transition)).tool, begun.tool);
}

// Since a database went back to an older state another call may have its number.
TEST_P(DispatchingEventTest, WhatIsSaidOfAnotherCallThanTheOneOfThatNumberIsNotTaken) {
  const Event begun = Dispatch(FullCall("k"));
  Transition other = Success(begun);
  other.key = DigestOf("another call's");
  const auto refused = Await(ledger_->Record(std::move(other), executor_), executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInternal);
  EXPECT_EQ(refused.error().delivery(), Delivery::kUncertain);
  EXPECT_EQ(ledger_->Stats().last_id, begun.id) << "something was written";
  const Transition own = Transition::Of(begun);
  EXPECT_EQ(own.operation, begun.operation);
  EXPECT_EQ(own.from, Phase::kDispatching);
  EXPECT_EQ(own.attempt, begun.attempt);
  Transition unknown = own;
  unknown.cause = Cause::kTimeout;
  Transition absent = Transition::Of(Record(std::move(unknown)));
  absent.to = Phase::kProvenAbsent;
  absent.cause = Cause::kProbeAbsent;
  EXPECT_EQ(Record(std::move(absent)).key, begun.key);
}

INSTANTIATE_TEST_SUITE_P(Stores, DispatchingEventTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::dispatching_event_test
