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
    return Respond(200, R"({"title":)" + title + "}", Tag());
  }

 private:
  Headers Tag() const {
    return has_tags ? Headers{{"ETag", "\"v" + std::to_string(version) + "\""}} : Headers();
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

BeforeRule RuleOf(std::vector<std::string> keep) {
  BeforeRule rule;
  for (const std::string& place : keep) rule.keep.push_back(*ParseSelector("body#" + place));
  rule.version = *ParseSelector("header.ETag");
  return rule;
}

Json Parsed(const std::string& text) { return *ParseJson(text); }

TEST(SnapshotsTest, WhatACallLeavesFollowsFromItsBody) {
  Tool tool;
  tool.before = RuleOf({"/a", "/b"});
  const Snapshot before{.version = "\"v1\"", .places = {{"/a", "1"}, {"/b", "2"}}};
  const Json body = Parsed(R"({"b":[3],"c":4})");
  CallValues call;
  call.body = &body;
  const Snapshot planned = PlannedState(tool, before, "PATCH", call);
  EXPECT_EQ(planned.places, (Headers{{"/a", "1"}, {"/b", "[3]"}}));
  EXPECT_EQ(planned.version, "");
  EXPECT_TRUE(PlannedState(tool, before, "DELETE", call).is_gone);
  const Json patches = Parsed(R"([{"op":"replace","path":"/a","value":9}])");
  call.body = &patches;
  EXPECT_EQ(PlannedState(tool, before, "PATCH", call).places, before.places);

  const Headers tag{{"ETag", "\"v2\""}};
  const Json whole = Parsed(R"({"a":7,"b":8})"), part = Parsed(R"({"a":7})");
  CallValues answered;
  answered.answer_headers = &tag;
  answered.answer_body = &whole;
  EXPECT_EQ(StateLeft(tool, planned, answered).places, (Headers{{"/a", "7"}, {"/b", "8"}}));
  answered.answer_body = &part;
  EXPECT_EQ(StateLeft(tool, planned, answered).places, planned.places);
  EXPECT_EQ(StateLeft(tool, planned, answered).version, "\"v2\"");
  answered.answer_body = nullptr;
  EXPECT_EQ(StateLeft(tool, planned, answered).places, planned.places);
}

TEST(SnapshotsTest, AMutationSetsWhatItsUndoPutsBackUnderThatName) {
  const auto loaded = LoadPolicyText("p.yaml", R"(
version: 1
backends: { b: { url: "http://b/graphql", protocol: graphql } }
tools:
  t:
    match: mutation b issueUpdate
    effect: write
    before:
      graphql: "query($id: ID!) { issue(id: $id) { title state { id } } }"
      variables: { id: "{body#/id}" }
      keep: [ body#/data/issue/title, body#/data/issue/state/id ]
    undo:
      graphql: "mutation($i: ID!, $in: In!) { issueUpdate(id: $i, input: $in) { ok } }"
      variables:
        i: "{body#/id}"
        in:
          title: "{before.body#/data/issue/title}"
          stateId: "{before.body#/data/issue/state/id}"
      only_if: unchanged
)");
  ASSERT_TRUE(loaded.ok());
  const Tool& tool = loaded.policy->tools.front();
  const Snapshot before{
      .places = {{"/data/issue/title", "\"old\""}, {"/data/issue/state/id", "1"}}};
  const Json body = Parsed(R"({"id":"7","input":{"stateId":2}})");
  CallValues call;
  call.body = &body;
  const Snapshot planned = PlannedState(tool, before, "POST", call);
  EXPECT_EQ(planned.places,
            (Headers{{"/data/issue/title", "\"old\""}, {"/data/issue/state/id", "2"}}));
  // What its answer shows stands as the backend has taken it.
  const Json answer = Parsed(R"({"data":{"issueUpdate":{"issue":{"title":"Old"}}}})");
  call.answer_body = &answer;
  EXPECT_EQ(StateLeft(tool, planned, call).places,
            (Headers{{"/data/issue/title", "\"Old\""}, {"/data/issue/state/id", "2"}}));
}

constexpr const char* kEdit = R"(
version: 1
backends: { b: { url: "http://b" } }
tools:
  t:
    match: "POST b /edit/{id}"
    effect: write
    identity: [ path.id, body#/text ]
    before:
      request: "GET /shown/{path.id}"
      keep: [ body#/m/text, "body#/m/blocks or null" ]
    undo:
      request: "POST /edit/{path.id}"
      json: { text: "{before.body#/m/text}", blocks: "{before.body#/m/blocks unless null}" }
      only_if: unchanged
)";

TEST(SnapshotsTest, ACallSetsWhatTheSameCallPutsBackUnderThatName) {
  const auto loaded = LoadPolicyText("p.yaml", kEdit);
  ASSERT_TRUE(loaded.ok());
  const Snapshot before{.places = {{"/m/text", "\"old\""}, {"/m/blocks", "null"}}};
  const Json body = Parsed(R"({"text":"new"})");
  CallValues call;
  call.body = &body;
  EXPECT_EQ(PlannedState(loaded.policy->tools.front(), before, "POST", call).places,
            (Headers{{"/m/text", "\"new\""}, {"/m/blocks", "null"}}));
}

TEST(SnapshotsTest, WhatWasNotThereIsLeftOutUnlessTheCallMayHaveSetIt) {
  const auto loaded = LoadPolicyText("p.yaml", kEdit);
  ASSERT_TRUE(loaded.ok());
  const BeforeRule& rule = *loaded.policy->tools.front().before;
  const auto read = ReadSnapshot(rule, Respond(200, R"({"m":{"text":"old"}})").answer, false);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->places, (Headers{{"/m/text", "\"old\""}, {"/m/blocks", "null"}}));
  EXPECT_FALSE(ReadSnapshot(rule, Respond(200, R"({"m":{"blocks":[]}})").answer, false));

  const std::vector<std::pair<std::string, std::string>> path{{"id", "7"}};
  const auto undone = [&](const Json* body) {
    CallValues call;
    call.path = &path;
    call.body = body;
    call.before = &*read;
    const auto request = Render(loaded.policy->tools.front().undo->request, call);
    return request ? request->body : "refused";
  };
  const Json text = Parsed(R"({"text":"new"})"), both = Parsed(R"({"text":"new","blocks":[1]})");
  EXPECT_EQ(undone(&text), R"({"text":"old"})");
  EXPECT_EQ(undone(&both), "refused");
  EXPECT_EQ(undone(nullptr), "refused");
}

TEST(SnapshotsTest, OnlyAWholeAnswerShowsAState) {
  const BeforeRule rule = RuleOf({"/a"});
  const auto why = [&](Answer answer, bool may_be_gone = false) {
    const auto read = ReadSnapshot(rule, answer, may_be_gone);
    return read ? std::string("read") : read.error().why;
  };
  EXPECT_EQ(why(Respond(200, R"({"a":null})").answer), "read");
  EXPECT_EQ(why(Respond(202, R"({"a":1})").answer), "the backend answered 202");
  EXPECT_EQ(why(Respond(404, R"({"a":1})").answer), "the backend answered 404");
  EXPECT_EQ(why(Respond(404, "").answer, true), "read");
  EXPECT_EQ(why(Respond(404, R"({"error":"gone"})").answer, true), "read");
  for (const int status : {203, 206}) {
    EXPECT_EQ(why(Respond(status, R"({"a":1})").answer),
              "the backend answered " + std::to_string(status));
  }
  for (const int status : {200, 404}) {
    Answer old = Respond(status, R"({"a":1})").answer;
    old.response.headers = {{"Age", "7"}};
    EXPECT_EQ(why(old, true), "the answer is an old one, from a cache");
    old.response.headers = {{"Age", "0"}};
    EXPECT_EQ(why(old, true), "read");
  }
  Answer page = Respond(404, "<html>").answer;
  page.response.headers = {{"Content-Type", "text/html"}};
  EXPECT_EQ(why(page, true), "the backend answered 404");
  EXPECT_EQ(why(Respond(200, R"({"b":1})").answer), "the answer has nothing at body#/a");
  EXPECT_EQ(why(Respond(200, "<html>").answer), "the answer is not a whole JSON text");
  Answer cut = Respond(200, R"({"a":1})").answer;
  cut.body_complete = false;
  EXPECT_EQ(why(cut), "the answer is not a whole JSON text");
  const std::string large(limits::kRenderedRequestBytesMax, 'x');
  EXPECT_EQ(why(Respond(200, R"({"a":")" + large + "\"}").answer),
            "what `keep` names is larger than 64 KiB");
}

}  // namespace
}  // namespace recourse::time_machine_test
