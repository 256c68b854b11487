// A POST that sets a state, over the real chain: what ends its answer, and what does not.
#include <gtest/gtest.h>

#include <string>

#include "tests/filters/calls.h"

namespace recourse::posted_state_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends: { shop: { url: "http://shop.test:8080", hosts: [ shop.test ] } }
tools:
  setting.set:
    match: POST shop /settings
    effect: write
    external_ref: answer.body#/key
    before: { request: "GET /settings/{body#/key}", keep: body#/value }
    undo: { request: "POST /settings", only_if: always,
            json: { key: "{body#/key}", value: "{before.body#/value}" } }
  setting.drop: { match: "DELETE shop /settings/{key}", effect: write, undo: none, reason: r }
)";

class PostedStateTest : public testing::Test {
 protected:
  PostedStateTest() {
    world_.upstream.probe = [](const HttpRequest&) {
      return Respond(200, R"({"key":"theme","value":"light"})");
    };
    world_.upstream.otherwise = Respond(200, R"({"key":"theme","value":"dark"})");
  }

  // Its answer has reached the client.
  Told Send(const std::string& method, const std::string& target, const std::string& body = {}) {
    CallSpec call = To("shop.test", target);
    call.method = method;
    call.body = body;
    if (body.empty()) call.content_type.clear();
    const Told told = world_.Call(call);
    world_.Deliver(told);
    return told;
  }

  World world_{kPolicy};
};

TEST_F(PostedStateTest, IsMadeAgainOnceWhatItsAnswerNamesWasDeleted) {
  const auto set = [&] { return Send("POST", "/settings", R"({"key":"theme","value":"dark"})"); };
  const auto drop = [&](const std::string& key) { return Send("DELETE", "/settings/" + key); };
  EXPECT_FALSE(set().replayed);
  EXPECT_TRUE(set().replayed);
  EXPECT_FALSE(drop("font").replayed);
  EXPECT_TRUE(set().replayed);
  EXPECT_FALSE(drop("theme").replayed);
  EXPECT_FALSE(set().replayed);
  EXPECT_TRUE(set().replayed);
  EXPECT_FALSE(drop("theme").replayed) << "it is there again";
  EXPECT_EQ(world_.upstream.writes.size(), 5U);
}

// Nothing is compared with so many, which a body of a few hundred KB may hold.
TEST_F(PostedStateTest, OfTooManyMembersNothingIsTold) {
  std::string body = R"({"key":"theme")";
  for (int i = 0; i < 99'000; ++i) body += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_FALSE(Send("POST", "/settings", body + "}").replayed);
  EXPECT_TRUE(Send("POST", "/settings", body + "}").replayed);
  EXPECT_EQ(world_.upstream.writes.size(), 1U);
}

}  // namespace
}  // namespace recourse::posted_state_test
