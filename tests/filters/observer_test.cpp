#include "filters/observe/observer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "policy/model/route_table.h"
#include "tests/filters/calls.h"

namespace recourse::observer_test {
namespace {

struct Started {
  explicit Started(Task<Result<void>> task) {
    Spawn(Run(std::move(task), *this), [] {});
  }
  static Task<void> Run(Task<Result<void>> task, Started& self) {
    self.result = co_await std::move(task);
    self.done = true;
  }
  bool done = false;
  Result<void> result;
};

class ObserverTest : public testing::Test {
 protected:
  // A POST of the test's policy that was seen whole.
  std::unique_ptr<ObservedCall> Seen(const std::string& path, const std::string& body) {
    auto call = std::make_unique<ObservedCall>();
    RequestContext& context = call->context;
    context.policy = world_.policy;
    context.backend = world_.policy->routes->FindBackend("orders.test", 80);
    std::string scratch;
    context.tool = world_.policy->routes->Match(*context.backend, "POST", path, scratch)->tool;
    context.tool_name = context.tool == nullptr ? "unlisted.orders" : context.tool->name;
    context.caller = "local";
    context.request = {"POST", path, {{"Content-Type", "application/json"}}, body};
    context.path = path;
    context.executor = &world_.loop.executor();
    call->is_whole = true;
    return call;
  }
  Event Foretold(const ObservedCall& call) {
    return Foretell(call, HmacKey("secret"), world_.random).operation.event;
  }
  // Watches `call` through an exchange that ended with `status`; its client had left.
  void WatchLost(ObservedCall& call, int status) {
    Answer answer;
    answer.response.status = status;
    answer.response.body = "secret answer";
    call.result = std::move(answer);
    Started watching(observer_.Watch(call));
    observer_.End(call);
    world_.loop.RunAll();
    EXPECT_TRUE(watching.done && watching.result);
  }
  void Watch(ObservedCall& call, int status) {
    call.is_delivered = true;
    WatchLost(call, status);
  }
  std::uint64_t OtherRows() { return world_.ledger.Stats().rows - world_.Events().size(); }

  World world_{kShopPolicy};
  Observer observer_{world_.ledger, world_.random, "secret"};
};

TEST_F(ObserverTest, WhatEnforceWouldSayBeforeTheLedgerIsForetold) {
  EXPECT_EQ(Foretold(*Seen("/orders", R"({"item":1})")).verdict, ObserveVerdict::kFresh);
  EXPECT_EQ(Foretold(*Seen("/mail", R"({"to":1})")).verdict, ObserveVerdict::kWouldHold);
  EXPECT_EQ(Foretold(*Seen("/pay", R"({"amount":1001})")).verdict, ObserveVerdict::kWouldHold);
  EXPECT_EQ(Foretold(*Seen("/pay", R"({"amount":999})")).verdict, ObserveVerdict::kFresh);

  const Event scope = Foretold(*Seen("/runs", "{}"));
  EXPECT_EQ(scope.verdict, ObserveVerdict::kWouldRefuse);
  EXPECT_EQ(scope.detail,
            "key-required: the tool orders.run needs the header X-Run-Id, which the call does not "
            "carry");
  const Event broken = Foretold(*Seen("/orders", "{"));
  EXPECT_EQ(broken.verdict, ObserveVerdict::kWouldRefuse);
  EXPECT_TRUE(broken.detail.starts_with("malformed-request: ")) << broken.detail;

  auto cut = Seen("/orders", "{");
  cut->is_whole = false;
  EXPECT_EQ(Foretold(*cut).verdict, ObserveVerdict::kNotJudged);
  auto denied = Seen("/orders", "{}");
  denied->refusal = CallRefusal(ErrorCode::kDenied, "no");
  EXPECT_EQ(Foretold(*denied).detail, "denied: no");
  auto passed = Seen("/other", "{");
  passed->context.guarded = false;
  EXPECT_EQ(Foretold(*passed).verdict, ObserveVerdict::kFresh);
}

TEST_F(ObserverTest, KeysAreApartFromThoseOfEnforceAndEqualForEqualCalls) {
  const auto call = Seen("/orders", R"({"item":1})");
  PreparedCall enforced;
  ASSERT_TRUE(PrepareCall(call->context, HmacKey("secret"), enforced));
  const Event first = Foretold(*call);
  EXPECT_NE(first.key, enforced.operation.event.key);
  EXPECT_EQ(first.key, Foretold(*Seen("/orders", R"({ "item": 1.0 })")).key);
  EXPECT_NE(first.key, Foretold(*Seen("/orders", R"({"item":2})")).key);
  // Refused calls have no key that a later call could meet.
  EXPECT_NE(Foretold(*Seen("/runs", "{}")).key, Foretold(*Seen("/runs", "{}")).key);
}

TEST_F(ObserverTest, NeitherAnswerNorProbeNorUndoIsKept) {
  const auto first = Seen("/orders", R"({"item":1})");
  WatchLost(*first, 201);
  const auto repeat = Seen("/orders", R"({"item":1})");
  Watch(*repeat, 201);
  EXPECT_EQ(first->verdict, ObserveVerdict::kFresh);
  EXPECT_EQ(repeat->verdict, ObserveVerdict::kWouldReplay);
  const std::vector<Event> events = world_.Events();
  ASSERT_EQ(events.size(), 4U);
  for (const Event& event : events) {
    EXPECT_FALSE(event.answer_kept || event.settle || event.undo);
  }
  EXPECT_EQ(events.back().http_status, 201);
  EXPECT_EQ(events.back().phase, Phase::kSucceeded);
}

TEST_F(ObserverTest, ARepeatThatIsAnsweredAnswersTheAttemptItRepeats) {
  const auto refused = Seen("/orders", R"({"item":1})");
  WatchLost(*refused, 422);
  world_.loop.Skip(limits::kFailedTtl + Millis(1));
  const auto second = Seen("/orders", R"({"item":1})");
  WatchLost(*second, 201);
  ASSERT_EQ(world_.Events().back().attempt, 2);
  const std::uint64_t unmarked = OtherRows();
  const auto repeat = Seen("/orders", R"({"item":1})");
  Watch(*repeat, 201);
  EXPECT_EQ(repeat->verdict, ObserveVerdict::kWouldReplay);
  EXPECT_EQ(OtherRows(), unmarked + 1);
}

// The ledger answers late; the client does not wait for it.
TEST(ObservedOrderTest, ACallWaitsForTheOutcomesOfThoseThatHadEndedBeforeIt) {
  TestLoop loop;
  ObservedOrder order;
  const auto first = order.Arrive(Sha256("a"));
  const auto beside = order.Arrive(Sha256("a"));  // the first still ran
  order.Ended(*first);
  const auto after = order.Arrive(Sha256("a"));
  const auto other = order.Arrive(Sha256("b"));
  order.Ended(*after);
  const auto last = order.Arrive(Sha256("a"));
  std::string turns;
  const auto go = [&](const std::shared_ptr<ObservedOrder::Place>& place, char name) {
    loop.Start([](ObservedOrder& in, std::shared_ptr<ObservedOrder::Place> at, Executor& on,
                  std::string& out, char letter) -> Task<void> {
      co_await in.MyTurn(std::move(at), on);
      out += letter;
    }(order, place, loop.executor(), turns, name));
  };
  go(last, 'l');
  go(after, 'a');
  go(other, 'o');
  go(beside, 'b');
  EXPECT_EQ(turns, "ob");
  order.Recorded(first);
  loop.RunAll();
  EXPECT_EQ(turns, "oba");
  order.Recorded(after);
  loop.RunAll();
  EXPECT_EQ(turns, "obal");
  order.Recorded(last);
  order.Recorded(beside);
  order.Recorded(other);
}

}  // namespace
}  // namespace recourse::observer_test
