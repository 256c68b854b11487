// Writes that ask by If-Match for what was read before them, against a backend with a state.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

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
  remove:
    match: DELETE tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body#, version: header.ETag }
    undo: { request: "PUT /issues/{path.id}", json: "{before.body#}", only_if: unchanged }
  unlock:
    match: DELETE tracker /issues/{id}/lock
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body# }
    undo: { request: "PUT /issues/{path.id}", json: "{before.body#}", only_if: unchanged }
  purge:
    match: DELETE tracker /pages/{id}
    effect: write
    not_executed: [ 404 ]
    before: { request: "GET /pages/{path.id}", keep: body# }
    undo: { request: "POST /pages", json: "{before.body#}", only_if: unchanged }
flow_rules: { agents_may: [ cancel ] }
)";

// One thing with a title and a note. `sent`: how often a gateway sends each write.
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
    return Write("PATCH", std::move(target), std::move(body));
  }
  Told Delete(std::string target) { return Write("DELETE", std::move(target), {}); }
  Told Write(std::string method, std::string target, std::string body) {
    CallSpec call;
    call.method = std::move(method);
    call.host = "tracker.test";
    call.target = std::move(target);
    call.body = std::move(body);
    return Call(call);
  }
  std::string title = "old", note = "old";
  std::string shown_as = "new";  // what a write to it makes of its title
  int writes = 0, conflicts = 0;
  bool asked = false;
  bool takes_tags = true, refuses = false;
  std::function<void()> meanwhile = [] {};  // once, before the next write

 private:
  Headers Tag() const { return {{"ETag", "\"v" + std::to_string(writes) + "\""}}; }
  Step Show() const {
    return Respond(200, R"({"id":7,"title":")" + title + R"(","note":")" + note + "\"}", Tag());
  }
  Step Change(const HttpRequest& request) {
    std::exchange(meanwhile, [] {})();
    const std::string* const wanted = FindHeader(request.headers, "If-Match");
    asked = asked || wanted != nullptr;
    const bool is_other = wanted != nullptr && (!takes_tags || *wanted != Tag().front().second);
    if (is_other || refuses) {
      ++conflicts;
      return Respond(412, "{}");
    }
    title = shown_as;
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

// A backend shows it in its own words, in the zone of its own, or as one that is only marked.
TEST(PreconditionTest, NorIsItMadeAgainWhereTheBackendShowsItInAnotherForm) {
  Tracker twice(2);
  twice.shown_as = "2026-11-30T23:00Z";
  EXPECT_EQ(twice.Patch("/issues/7", R"({"title":"2026-12-01T00:00+01:00"})").error,
            ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(twice.writes, 1);
  Tracker marked(2);
  marked.shown_as = "deleted: old";
  EXPECT_EQ(marked.Delete("/issues/7").error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(marked.writes, 1);
}

TEST(PreconditionTest, WhatSomebodyElseWritesBesideItHasItMadeAnew) {
  Tracker world;
  world.meanwhile = [&] { world.note = "theirs", ++world.writes; };
  EXPECT_EQ(world.Patch("/issues/7", R"({"title":"new"})").status, 200);
  EXPECT_EQ(world.title, "new");
  EXPECT_EQ(world.conflicts, 1);
  world.StartFlows();
  CallSpec cancel;
  cancel.host = "tracker.test";
  cancel.headers.emplace_back("Recourse-Flow", "cancel");
  (void)world.Call(cancel);
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.upstream.writes.back().request.body, R"({"id":7,"title":"old","note":"theirs"})");
}

TEST(PreconditionTest, WhatSomebodyElseWritesThereMayBeItsOwnDoing) {
  Tracker world;
  world.meanwhile = [&] { world.title = "theirs", ++world.writes; };
  EXPECT_EQ(world.Patch("/issues/7", R"({"title":"new"})").error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(world.title, "theirs");
}

// As servers do whose tags of what they compress differ.
TEST(PreconditionTest, ABackendThatRefusesTheTagThatItShowsIsNotAskedByItAgain) {
  Tracker world;
  world.takes_tags = false;
  EXPECT_EQ(world.Patch("/issues/7", R"({"title":"new"})").status, 200);
  EXPECT_TRUE(world.asked);
  EXPECT_EQ(world.writes, 1);
  EXPECT_EQ(world.conflicts, 1);
  Tracker refusing;
  refusing.refuses = true;
  EXPECT_EQ(refusing.Patch("/issues/7", R"({"title":"new"})").status, 412) << "its own";
  EXPECT_EQ(refusing.conflicts, 2);
}

// It was there a moment ago: by somebody else, or by the same call sent twice.
TEST(PreconditionTest, ADeleteThatFindsNothingOfWhatWasJustReadProvesNothing) {
  for (const int status : {404, 410}) {
    Tracker world;
    world.upstream.decide = [&](const HttpRequest&) { return Respond(status, "{}"); };
    const Told gone = world.Delete("/issues/7");
    EXPECT_EQ(gone.status, status);
    EXPECT_EQ(world.Events().back().phase, Phase::kUncertain);
  }
  // What it finds nothing of is something else, or the policy says what it means.
  for (const char* const target : {"/issues/7/lock", "/pages/7"}) {
    Tracker world;
    world.upstream.decide = [](const HttpRequest&) { return Respond(404, "{}"); };
    EXPECT_EQ(world.Delete(target).status, 404) << target;
    EXPECT_NE(world.Events().back().phase, Phase::kUncertain) << target;
  }
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
