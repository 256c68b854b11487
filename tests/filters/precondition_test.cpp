// Writes that ask by If-Match for what was read before them, against a backend with a state.
#include <gtest/gtest.h>

#include <string>

#include "tests/filters/saga_shop.h"

namespace recourse::precondition_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends:
  tracker: { url: "http://tracker.test", hosts: [ tracker.test ] }
tools:
  update:
    match: PATCH tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body#, version: header.ETag }
    undo: { request: "PUT /issues/{path.id}", json: "{before.body#}", only_if: unchanged }
  view:
    match: PATCH tracker /views/{id}
    effect: write
    before: { request: "GET /views/{path.id}?fields=title", keep: body#, version: header.ETag }
    undo: { request: "PUT /views/{path.id}", json: "{before.body#}", only_if: unchanged }
)";

// One thing with a title. `sent`: how often a gateway sends each write.
class Tracker : public World {
 public:
  explicit Tracker(int sent = 1) : World(PolicyOf(kPolicy)), sent_(sent) {
    upstream.probe = [this](const HttpRequest&) { return Show(); };
    upstream.decide = [this](const HttpRequest& request) {
      Step step = Change(request);
      for (int i = 1; i < sent_; ++i) step = Change(request);
      return step;
    };
  }
  Told Patch(std::string target, std::string body) {
    CallSpec call;
    call.method = "PATCH";
    call.host = "tracker.test";
    call.target = std::move(target);
    call.body = std::move(body);
    return Call(call);
  }
  std::string title = "old";
  int writes = 0;
  bool asked = false;

 private:
  Headers Tag() const { return {{"ETag", "\"v" + std::to_string(writes) + "\""}}; }
  Step Show() const { return Respond(200, R"({"id":7,"title":")" + title + "\"}", Tag()); }
  Step Change(const HttpRequest& request) {
    const std::string* const wanted = FindHeader(request.headers, "If-Match");
    asked = asked || wanted != nullptr;
    if (wanted != nullptr && *wanted != Tag().front().second) return Respond(412, "{}");
    title = "new";
    ++writes;
    return Show();
  }

  const int sent_;
};

TEST(PreconditionTest, WhatIsKeptWholeShowsWhetherAGatewayHadSentItBefore) {
  Tracker once;
  EXPECT_EQ(once.Patch("/issues/7", R"({"title":"new"})").status, 200);
  EXPECT_TRUE(once.asked);
  Tracker twice(2);
  EXPECT_EQ(twice.Patch("/issues/7", R"({"title":"new"})").error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(twice.writes, 1);
}

// The tag of a part of it, or of what is yet to be there, proves nothing.
TEST(PreconditionTest, ItAsksWhereARefusalCouldBeRead) {
  for (const auto& [target, body] : {std::pair{"/views/7", R"({"title":"new"})"},
                                     {"/issues/7", R"({"title":"Old "})"},
                                     {"/issues/7", R"({"due":"today"})"},
                                     {"/issues/7", "{}"}}) {
    Tracker world;
    EXPECT_EQ(world.Patch(target, body).status, 200) << target << ' ' << body;
    EXPECT_FALSE(world.asked) << target << ' ' << body;
  }
}

}  // namespace
}  // namespace recourse::precondition_test
