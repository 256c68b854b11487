// Updates that are undone from what was read before them, against a backend with a state.
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "filters/call/snapshots.h"
#include "policy/language/loader.h"
#include "tests/filters/saga_shop.h"

namespace recourse::time_machine_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends:
  tracker: { url: "http://tracker.test", hosts: [ tracker.test ] }
tools:
  update:
    match: PATCH tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body#/title, version: header.ETag }
    undo: { request: "PATCH /issues/{path.id}", json: { title: "{before.body#/title}" },
            only_if: unchanged, repeatable: true }
flow_rules: { agents_may: [ cancel ] }
)";

std::shared_ptr<const Policy> Rules() {
  static const std::shared_ptr<const Policy> policy = PolicyOf(kPolicy);
  return policy;
}

// One issue. Whoever changes it gives it a new version.
class Tracker : public World {
 public:
  Tracker() : World(Rules()) {
    upstream.probe = [this](const HttpRequest&) { return Show(); };
    upstream.decide = [this](const HttpRequest& request) { return Change(request); };
    StartFlows();
  }
  std::string title = "\"old\"";
  int version = 1;
  bool has_tags = true;
  bool counts = true;                        // its versions are counted, and no digests
  std::string coding, coded_tag;             // of answers to writes, each with a tag of its own
  bool is_theirs = false;                    // the last change is somebody else's
  bool overwrote = false;                    // what somebody else had written
  int lost = 0;                              // so many writes act, and their answers are lost
  int unreadable = 0;                        // so many reads are answered with a 503
  std::function<void()> after_read = [] {};  // once

  void Foreign(const std::string& value) {
    title = value;
    ++version;
    is_theirs = true;
  }
  static CallSpec Patch(const std::string& value) {
    CallSpec call;
    call.method = "PATCH";
    call.host = "tracker.test";
    call.target = "/issues/7";
    call.body = R"({"title":)" + value + "}";
    return call;
  }
  Told Update(const std::string& value) { return Call(Patch(value)); }
  FlowPhase Cancel() {
    CallSpec call;
    call.host = "tracker.test";
    call.headers.emplace_back("Recourse-Flow", "cancel");
    (void)Call(call);
    loop.RunFor(Millis(3'600'000));
    return ledger.NewestFlows(1)->back().phase;
  }
  Step Change(const HttpRequest& request) {
    const std::string* const wanted = FindHeader(request.headers, "If-Match");
    if (wanted != nullptr && *wanted != Tag().front().second) return Respond(412, "{}");
    overwrote = overwrote || is_theirs;
    title = request.body.substr(9, request.body.size() - 10);
    ++version;
    if (lost > 0 && lost-- > 0) return CutAfterSend();
    Headers fields = Tag();
    if (!coding.empty()) fields = {{"ETag", coded_tag}, {"Content-Encoding", coding}};
    return Respond(200, coding.empty() ? R"({"title":)" + title + "}" : "coded", fields);
  }

 private:
  Headers Tag() const {
    if (!has_tags) return {};
    const std::string digest = std::to_string(1'000'003 * version % 65'537) + "-x";
    return {{"ETag", "\"v" + (counts ? std::to_string(version) : digest) + "\""}};
  }
  Step Show() {
    if (unreadable > 0 && unreadable-- > 0) return Respond(503, "");
    Step step = Respond(200, R"({"title":)" + title + "}", Tag());
    std::exchange(after_read, [] {})();
    return step;
  }
};

TEST(TimeMachineTest, WhatWasThereIsPutBack) {
  Tracker world;
  EXPECT_EQ(world.Update("\"new\"").status, 200);
  EXPECT_EQ(world.upstream.probes.size(), 1U);
  EXPECT_EQ(world.title, "\"new\"");
  EXPECT_EQ(world.Cancel(), FlowPhase::kUndone);
  EXPECT_EQ(world.title, "\"old\"");
  EXPECT_EQ(world.upstream.probes.size(), 2U);
}

constexpr const char* kMakingPolicy = R"(
version: 1
backends:
  tracker: { url: "http://tracker.test", hosts: [ tracker.test ] }
tools:
  make: { match: POST tracker /issues, effect: write,
          undo: { request: "DELETE /issues/{external_ref}", done: [ 2xx, 404 ] } }
  remove:
    match: DELETE tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body# }
    undo: { request: "POST /issues", json: "{before.body#}", only_if: unchanged }
flow_rules: { agents_may: [ cancel ] }
)";

// What is made again has another name, by which nobody would remove it.
TEST(TimeMachineTest, WhatOneFlowHasMadeAndRemovedIsNotMadeAgain) {
  World world(PolicyOf(kMakingPolicy));
  std::vector<std::string> writes;
  world.upstream.probe = [&](const HttpRequest&) { return Respond(200, R"({"id":"n1"})"); };
  world.upstream.decide = [&](const HttpRequest& request) {
    writes.push_back(request.method);
    return request.method == "POST" ? Respond(201, R"({"id":"n1"})") : Respond(204, "");
  };
  world.StartFlows();
  CallSpec call;
  call.host = "tracker.test";
  call.target = "/issues";
  call.body = R"({"title":"a"})";
  EXPECT_EQ(world.Call(call).status, 201);
  call.method = "DELETE";
  call.target = "/issues/n1";
  call.body.clear();
  EXPECT_EQ(world.Call(call).status, 204);
  call.method = "POST";
  call.target = "/issues";
  call.headers.emplace_back("Recourse-Flow", "cancel");
  (void)world.Call(call);
  world.loop.RunFor(Millis(3'600'000));
  const FlowState flow = world.ledger.NewestFlows(1)->back();
  EXPECT_EQ(flow.phase, FlowPhase::kUndone) << flow.reason;
  EXPECT_EQ(writes, (std::vector<std::string>{"POST", "DELETE"}));
  EXPECT_NE(flow.reason.find("had made"), std::string::npos) << flow.reason;
}

// The newer one's undo has given it a version that nobody else has made.
TEST(TimeMachineTest, TwoUpdatesOfOneFlowAreUndone) {
  Tracker world;
  for (const char* const value : {"\"one\"", "\"two\"", "\"three\""}) {
    EXPECT_EQ(world.Update(value).status, 200);
  }
  EXPECT_EQ(world.Cancel(), FlowPhase::kUndone);
  EXPECT_EQ(world.title, "\"old\"");
}

TEST(TimeMachineTest, AForeignChangeBetweenTwoUndosIsNotOverwritten) {
  Tracker world;
  EXPECT_EQ(world.Update("\"one\"").status, 200);
  EXPECT_EQ(world.Update("\"two\"").status, 200);
  int changes = 0;
  world.upstream.decide = [&](const HttpRequest& request) {
    Step step = world.Change(request);
    // What is kept reads the same, and its version tells of something else.
    if (++changes == 1) world.Foreign(world.title);
    return step;
  };
  EXPECT_EQ(world.Cancel(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(world.title, "\"one\"");
  EXPECT_FALSE(world.overwrote);
}

// Somebody else comes between the look at it and the call, with something that is not kept.
TEST(TimeMachineTest, ACallChangesWhatItsUndoPutsBack) {
  Tracker world;
  int theirs = 1;
  world.upstream.decide = [&](const HttpRequest& request) {
    if (theirs-- > 0) world.Foreign(world.title);
    return world.Change(request);
  };
  EXPECT_EQ(world.Update("\"new\"").status, 200);
  EXPECT_EQ(world.title, "\"new\"");
  EXPECT_EQ(world.upstream.probes.size(), 2U);
  world.is_theirs = false;
  EXPECT_EQ(world.Cancel(), FlowPhase::kUndone);
  EXPECT_EQ(world.title, "\"old\"");
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

TEST(TimeMachineTest, ACallThatOthersAlwaysComeBeforeIsNotMade) {
  Tracker world;
  world.upstream.decide = [&](const HttpRequest& request) {
    world.Foreign(world.title);
    return world.Change(request);
  };
  EXPECT_EQ(world.Update("\"new\"").error, ErrorCode::kNotSent);
  EXPECT_EQ(world.title, "\"old\"");
  EXPECT_EQ(world.upstream.writes.size(), 3U);
  world.upstream.decide = [&](const HttpRequest& request) { return world.Change(request); };
  EXPECT_EQ(world.Update("\"new\"").status, 200);
}

// nginx, for one, sends a PUT that timed out to the next server.
TEST(TimeMachineTest, ARefusalOfWhatAGatewaySentTwiceProvesNothing) {
  Tracker world;
  world.upstream.decide = [&](const HttpRequest& request) {
    (void)world.Change(request);
    return world.Change(request);
  };
  EXPECT_EQ(world.Update("\"new\"").error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Cancel(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(world.title, "\"new\"");
}

TEST(TimeMachineTest, NorDoesOneOfADeleteWhoseThingIsGoneByThen) {
  for (const bool is_gone : {true, false}) {
    World world(PolicyOf(R"(
version: 1
backends:
  tracker: { url: "http://tracker.test", hosts: [ tracker.test ] }
tools:
  remove:
    match: DELETE tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body#, version: header.ETag }
    undo: { request: "POST /issues", json: "{before.body#}", only_if: unchanged }
)"));
    int reads = 0;
    world.upstream.probe = [&](const HttpRequest&) {
      if (is_gone && reads > 0) return Respond(404, "{}");
      return Respond(200, R"({"id":"7"})", {{"ETag", "\"v" + std::to_string(++reads) + "\""}});
    };
    world.upstream.decide = [](const HttpRequest&) { return Respond(412, "{}"); };
    CallSpec call;
    call.method = "DELETE";
    call.host = "tracker.test";
    call.target = "/issues/7";
    EXPECT_EQ(world.Call(call).error, is_gone ? ErrorCode::kOutcomeUnknown : ErrorCode::kNotSent);
    EXPECT_EQ(world.upstream.writes.size(), is_gone ? 1U : 3U);
  }
}

TEST(TimeMachineTest, WhereWhatIsKeptWouldNotShowThatItWasMadeItAsksForNothing) {
  Tracker world;
  bool asked = false;
  world.upstream.decide = [&](const HttpRequest& request) {
    asked = asked || FindHeader(request.headers, "If-Match") != nullptr;
    return Respond(200, "{}");
  };
  EXPECT_EQ(world.Update("\"old\"").status, 200);
  EXPECT_FALSE(asked);
}

TEST(TimeMachineTest, WhatAnAgentItselfAsksForItIsTold) {
  Tracker world;
  CallSpec call = Tracker::Patch("\"new\"");
  call.headers.emplace_back("If-Match", "\"v0\"");
  EXPECT_EQ(world.Call(call).status, 412);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

// To typed languages and stores of documents 1.0 is no 1.
TEST(TimeMachineTest, NumbersGoBackAsTheyWereWritten) {
  Tracker world;
  world.title = R"([1.0, -0.0, 1E2 ,1.50,9007199254740993,{"a" : 0.10}, "\u00e9\/ x"])";
  EXPECT_EQ(world.Update("7").status, 200);
  EXPECT_EQ(world.Cancel(), FlowPhase::kUndone);
  EXPECT_EQ(world.title, R"([1.0,-0.0,1E2,1.50,9007199254740993,{"a":0.10},"é/ x"])");
}

TEST(TimeMachineTest, ARepeatReadsNothing) {
  Tracker world;
  (void)world.Update("\"new\"");
  EXPECT_TRUE(world.Update("\"new\"").replayed);
  EXPECT_EQ(world.upstream.probes.size(), 1U);
}

TEST(TimeMachineTest, WhatCannotBeReadIsNotSentAndNotRemembered) {
  Tracker world;
  world.unreadable = 1;
  const Told told = world.Update("\"new\"");
  EXPECT_EQ(told.error, ErrorCode::kNotSent);
  EXPECT_TRUE(world.Events().empty());
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(world.Update("\"new\"").status, 200);
}

TEST(TimeMachineTest, AnUndoWhoseAnswerIsLostIsFoundToHaveHappened) {
  Tracker world;
  (void)world.Update("\"new\"");
  world.lost = 1;
  EXPECT_EQ(world.Cancel(), FlowPhase::kUndone);
  EXPECT_EQ(world.title, "\"old\"");
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

// The newer one's undo has happened, and nobody was told: the one write since is its own.
TEST(TimeMachineTest, OlderUpdatesAreUndoneToo) {
  for (int at = 1; at <= 3; ++at) {
    Tracker world;
    for (const char* const value : {"\"one\"", "\"two\"", "\"three\""}) (void)world.Update(value);
    int undos = 0;
    world.upstream.decide = [&](const HttpRequest& request) {
      if (++undos == at) world.lost = 1;
      return world.Change(request);
    };
    EXPECT_EQ(world.Cancel(), FlowPhase::kUndone) << at;
    EXPECT_EQ(world.title, "\"old\"") << at;
    EXPECT_EQ(world.upstream.writes.size(), 6U) << at;
  }
}

TEST(TimeMachineTest, UnlessSomebodyMayHaveWrittenBeside) {
  for (const bool counts : {true, false}) {
    Tracker world;
    world.counts = counts;
    for (const char* const value : {"\"one\"", "\"two\""}) (void)world.Update(value);
    bool is_first = true;
    world.upstream.decide = [&](const HttpRequest& request) {
      if (std::exchange(is_first, false)) world.lost = 1;
      const Step step = world.Change(request);
      if (counts) world.Foreign(world.title);
      return step;
    };
    EXPECT_EQ(world.Cancel(), FlowPhase::kNeedsHuman);
    EXPECT_EQ(world.title, "\"one\"");
    EXPECT_FALSE(world.overwrote);
  }
}

TEST(TimeMachineTest, ATagOfACodedAnswerIsNotTakenForAChange) {
  for (const auto& [tag, is_known] : std::vector<std::pair<std::string, bool>>{
           {"\"v2-gzip\"", true}, {"W/\"v2\"", true}, {"\"another\"", false}}) {
    for (const bool is_changed : {false, true}) {
      Tracker world;
      world.coding = "gzip";
      world.coded_tag = tag;
      EXPECT_EQ(world.Update("\"new\"").status, 200);
      world.coding.clear();
      if (is_changed) world.Foreign("\"theirs\"");
      EXPECT_EQ(world.Cancel(), is_changed ? FlowPhase::kNeedsHuman : FlowPhase::kUndone) << tag;
      EXPECT_EQ(world.title, is_changed ? "\"theirs\"" : "\"old\"") << tag;
      EXPECT_FALSE(world.overwrote);
      if (is_changed) continue;
      const std::string* const asked =
          FindHeader(world.upstream.writes.back().request.headers, "If-Match");
      ASSERT_NE(asked, nullptr) << tag;
      EXPECT_EQ(*asked, "\"v2\"") << tag;
    }
    // What is not kept has changed: as far as the tag tells of it, a human decides.
    Tracker world;
    world.coding = "gzip";
    world.coded_tag = tag;
    EXPECT_EQ(world.Update("\"new\"").status, 200);
    world.coding.clear();
    ++world.version;
    EXPECT_EQ(world.Cancel(), is_known ? FlowPhase::kNeedsHuman : FlowPhase::kUndone) << tag;
  }
}

TEST(TimeMachineTest, AForeignChangeIsNeverOverwritten) {
  std::mt19937 random(20261126);
  const auto draw = [&](unsigned most) { return static_cast<int>(random() % most); };
  int undone = 0, parked = 0;
  for (int round = 0; round < 2'000; ++round) {
    Tracker world;
    world.has_tags = draw(2) == 0;
    world.unreadable = draw(4) == 0 ? 1 : 0;
    const std::string ours = std::to_string(draw(3)), theirs = std::to_string(draw(3));
    if (world.Update(ours).status != 200) {
      ASSERT_EQ(world.title, "\"old\"") << round;
      continue;
    }
    const int when = draw(4);
    if (when == 1) world.Foreign(theirs);
    if (when == 2) world.Foreign("\"old\"");
    // Without a version nothing tells what happens between a look and the undo.
    if (when == 3 && world.has_tags) {
      world.after_read = [&] { world.Foreign(theirs); };
    }
    world.unreadable = draw(3);
    world.lost = draw(3) == 0 ? 1 : 0;
    const FlowPhase end = world.Cancel();
    const bool is_told_apart = world.has_tags || theirs != ours;
    if (is_told_apart) ASSERT_FALSE(world.overwrote) << round;
    if (when == 0) {
      ASSERT_EQ(end, FlowPhase::kUndone) << round;
      ASSERT_EQ(world.title, "\"old\"") << round;
    }
    end == FlowPhase::kUndone ? ++undone : ++parked;
  }
  EXPECT_GT(undone, 200);
  EXPECT_GT(parked, 200);
}

}  // namespace
}  // namespace recourse::time_machine_test
