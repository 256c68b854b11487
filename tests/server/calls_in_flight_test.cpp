#include "proxy/mcp/calls_in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct OneLink final : ClientLink {
  bool HasLeft() const override { return has_left; }
  bool MayHaveLeft() const override { return has_left; }
  bool has_left = false;
};

struct OneWrite {
  OneWrite(CallsInFlight& calls, std::string name, Principal principal = 1,
           std::string content = "c")
      : write(calls, {std::move(name), principal}, std::move(content), client) {}
  OneLink link;
  CallClient client{link};
  CallsInFlight::Write write;
};

constexpr MonoTime kCanceledAt{Millis(1'000'000)};

std::vector<std::uint64_t> UnreadOf(const CallsInFlight::Canceled& canceled) {
  std::vector<std::uint64_t> found;
  for (const AttemptId& attempt : canceled.unread) found.push_back(attempt.operation);
  return found;
}

TEST(CallsInFlightTest, ACanceledCallsClientIsGoneAndNoOther) {
  CallsInFlight calls;
  const OneWrite one(calls, "a"), of_another(calls, "a", 2), other(calls, "b");
  EXPECT_FALSE(calls.Cancel({"a", 1}, kCanceledAt).is_read);
  EXPECT_TRUE(one.client.HasLeft() && one.client.MayHaveLeft());
  EXPECT_FALSE(of_another.client.HasLeft() || other.client.HasLeft());
  EXPECT_FALSE(calls.Cancel({"c", 1}, kCanceledAt).is_read);
}

TEST(CallsInFlightTest, AnEqualCallIsATwinAsLongAsItsClientWaits) {
  CallsInFlight calls;
  const OneWrite first(calls, "a"), repeat(calls, "b"), of_another(calls, "c", 2),
      nothing(calls, "d", 1, "");
  EXPECT_TRUE(repeat.write.HasTwin());
  EXPECT_FALSE(of_another.write.HasTwin() || nothing.write.HasTwin());
  (void)calls.Cancel({"a", 1}, kCanceledAt);
  EXPECT_FALSE(repeat.write.HasTwin());
  EXPECT_TRUE(first.write.HasTwin());
}

TEST(CallsInFlightTest, NoAnswerIsMarkedForAClientThatGaveUp) {
  CallsInFlight calls;
  OneWrite call(calls, "a");
  (void)calls.Cancel({"a", 1}, kCanceledAt);
  EXPECT_FALSE(call.write.Answered({7, 1}, kCanceledAt, [] { ADD_FAILURE(); }));
}

TEST(CallsInFlightTest, ACancellationSoonAfterTheAnswerTakesItsMarkBackOnce) {
  CallsInFlight calls;
  for (const std::uint64_t operation : {7U, 8U}) {
    OneWrite call(calls, operation == 7 ? "a" : "b");
    bool is_marked = false;
    EXPECT_TRUE(call.write.Answered({operation, 1}, kCanceledAt, [&] { is_marked = true; }));
    EXPECT_TRUE(is_marked);
    if (operation == 7) EXPECT_THAT(UnreadOf(calls.Cancel({"a", 1}, kCanceledAt)), ElementsAre(7));
    EXPECT_FALSE(call.client.HasLeft());
  }
  EXPECT_THAT(UnreadOf(calls.Cancel({"a", 1}, kCanceledAt)), IsEmpty());
  EXPECT_THAT(UnreadOf(calls.Cancel({"b", 2}, kCanceledAt)), IsEmpty());
  const MonoTime later = kCanceledAt + limits::kCancelCrosses + Millis(1);
  EXPECT_THAT(UnreadOf(calls.Cancel({"b", 1}, later)), IsEmpty());
}

TEST(CallsInFlightTest, AnswersAreForgottenTheOldestFirst) {
  CallsInFlight calls;
  for (std::uint64_t i = 0; i <= limits::kLateCallsMax; ++i) {
    OneWrite call(calls, std::to_string(i));
    EXPECT_TRUE(call.write.Answered({i + 1, 1}, kCanceledAt, [] {}));
  }
  EXPECT_THAT(UnreadOf(calls.Cancel({"0", 1}, kCanceledAt)), IsEmpty());
  EXPECT_THAT(UnreadOf(calls.Cancel({"1", 1}, kCanceledAt)), ElementsAre(2));
}

TEST(CallsInFlightTest, OfAReadAloneTheServerMayHear) {
  CallsInFlight calls;
  const CallsInFlight::Read read(calls, "a"), nameless(calls, "");
  EXPECT_TRUE(calls.Cancel({"a", 1}, kCanceledAt).is_read);
  EXPECT_FALSE(calls.Cancel({"", 1}, kCanceledAt).is_read);
  {
    const OneWrite call(calls, "a", 2);
    EXPECT_FALSE(calls.Cancel({"a", 1}, kCanceledAt).is_read);
  }
  EXPECT_TRUE(calls.Cancel({"a", 1}, kCanceledAt).is_read);
}

}  // namespace
}  // namespace recourse
