// The two sentences that the product is for.
#include <gtest/gtest.h>

#include "tests/filters/calls.h"

namespace recourse::mission_test {
namespace {

TEST(Mission, ARepeatedRequestWithTheSameKeyCreatesNoDuplicate) {
  World world(kShopPolicy);
  world.upstream.otherwise =
      Respond(201, R"({"id":"ord_1"})", {{"Location", "/orders/1"}, {"Set-Cookie", "s=1"}});
  const Told first = world.Call(Keyed("order-42"));
  const Told second = world.Call(Keyed("order-42"));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(second.status, first.status);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(Comparable(second.headers), Comparable(first.headers));
  EXPECT_EQ(first.Field("Set-Cookie"), "s=1") << "the first answer is the backend's own";
  EXPECT_EQ(second.Field("Set-Cookie"), "");
  EXPECT_EQ(first.Field("Idempotent-Replayed"), "");
  EXPECT_EQ(second.Field("Idempotent-Replayed"), "true");
  EXPECT_TRUE(second.replayed);
}

TEST(Mission, TheLogHoldsTheFullTraceOfATraceId) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(201, R"({"id":"ord_1"})"), Respond(422, R"({"error":"no"})")};
  const Told order = world.Call(Order());
  const Told note = world.Call(Note("hello"));
  (void)world.Call(UnderTrace(kTraceB));

  const auto page = world.ledger.List({.trace_id = kTraceA,
                                       .tool = {},
                                       .status = {},
                                       .phase = {},
                                       .operation = {},
                                       .after = 0,
                                       .limit = 100});
  ASSERT_TRUE(page.has_value());
  const std::vector<Event>& events = page->events;
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].phase, kDispatching);
  EXPECT_EQ(events[1].phase, Phase::kSucceeded);
  EXPECT_EQ(events[2].phase, kDispatching);
  EXPECT_EQ(events[3].phase, Phase::kRejected);
  for (const Event& event : events) {
    EXPECT_NE(event.id, 0U);
    EXPECT_NE(event.operation, 0U);
    EXPECT_NE(event.key, Digest{});
    EXPECT_NE(event.args_hash, Digest{});
    EXPECT_EQ(event.trace_id, kTraceA);
    EXPECT_EQ(event.flow, kTraceA);
    EXPECT_EQ(event.caller, "agent-1");
    EXPECT_EQ(event.attempt, 1);
    EXPECT_EQ(event.policy_version, world.policy->version);
    EXPECT_NE(event.wall_ms, 0);
    EXPECT_NE(event.cause, Cause::kNone);
    EXPECT_EQ(event.method, "POST");
  }
  EXPECT_EQ(events[1].tool, "orders.create");
  EXPECT_EQ(events[1].status(), Status::kSuccess);
  EXPECT_EQ(events[1].external_ref, "ord_1");
  EXPECT_EQ(events[1].http_status, 201);
  EXPECT_EQ(events[1].path, "/orders");
  ASSERT_TRUE(events[1].undo.has_value());
  EXPECT_EQ(events[1].undo->target, "/orders/ord_1");
  EXPECT_EQ(events[3].tool, "orders.note");
  EXPECT_EQ(events[3].status(), Status::kFailed);
  EXPECT_EQ(order.Field("Recourse-Event"), std::to_string(events[1].id));
  EXPECT_EQ(note.Field("Recourse-Event"), std::to_string(events[3].id));
  EXPECT_EQ(order.Field("Idempotency-Key"), ToHex(events[1].key));
}

}  // namespace
}  // namespace recourse::mission_test
