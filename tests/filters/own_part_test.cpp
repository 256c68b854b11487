// Somebody else writes after the state before a call was read, and before the call arrives.
#include "policy/undo/own_part.h"

#include <gtest/gtest.h>

#include <random>

#include "filters/call/snapshots.h"
#include "tests/filters/saga_shop.h"

namespace recourse::own_part_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends:
  tracker: { url: "http://tracker.test", hosts: [ tracker.test ] }
tools:
  update:
    match: PATCH tracker /issues/{id}
    effect: write
    before: { request: "GET /issues/{path.id}", version: body#/version,
              keep: [ body#/title, body#/labels, body#/updated_at ] }
    undo: { request: "PATCH /issues/{path.id}", only_if: unchanged, repeatable: true,
            leaves: body#/updated_at,
            json: { title: "{before.body#/title}", labels: "{before.body#/labels}" } }
  replace:
    match: PUT tracker /pages/{id}
    effect: write
    before: { request: "GET /pages/{path.id}", keep: body# }
    undo: { request: "PUT /pages/{path.id}", json: "{before.body#}", only_if: unchanged }
  patch:
    match: PATCH tracker /pages/{id}
    effect: write
    before: { request: "GET /pages/{path.id}", keep: body# }
    undo: { request: "PUT /pages/{path.id}", json: "{before.body#}", only_if: unchanged }
  assign:
    match: PUT tracker /issues/{id}/assignee
    effect: write
    before: { request: "GET /issues/{path.id}", keep: "body#/assignee/id or null" }
    undo: { request: "PUT /issues/{path.id}/assignee", json: { who: "{before.body#/assignee/id}" },
            rest: stays, only_if: unchanged }
  name:
    match: PUT tracker /docs/{id}
    effect: write
    before: { request: "GET /docs/{path.id}", keep: [ body#/name, body#/note ] }
    undo: { request: "PUT /docs/{path.id}", rest: stays, only_if: unchanged,
            json: { name: "{before.body#/name}", note: "{before.body#/note}" } }
  tag:
    match: POST tracker /issues/{id}/labels
    effect: write
    before: { request: "GET /issues/{path.id}/labels", keep: body# }
    undo: { request: "PUT /issues/{path.id}/labels", json: { labels: "{before.body#}" },
            only_if: unchanged }
  close:
    match: POST tracker /issues/{id}/close
    effect: write
    before: { request: "GET /issues/{path.id}", keep: body#/state }
    undo: { request: "PATCH /issues/{path.id}", json: { state: "{before.body#/state}" },
            only_if: unchanged }
flow_rules: { agents_may: [ cancel ] }
)";

std::shared_ptr<const Policy> Rules() {
  static const std::shared_ptr<const Policy> policy = PolicyOf(kPolicy);
  return policy;
}

// What the undo of such a call says of a state in which nobody has changed anything since the call
// was answered with `shown`.
Drift DriftAfter(const std::string& tool_name, const std::string& method, const std::string& before,
                 const std::string& body, const std::string& shown) {
  const Tool& tool = *Rules()->FindTool(tool_name);
  const auto read = ReadSnapshot(*tool.before, Respond(200, before).answer, false);
  EXPECT_TRUE(read) << before;
  const auto sent = ParseJson(body), told = ParseJson(shown);
  CallValues call;
  call.body = sent ? &*sent : nullptr;
  call.answer_body = told ? &*told : nullptr;
  const Headers none;
  call.answer_headers = &none;
  const Snapshot planned = PlannedState(tool, *read, method, call);
  const Snapshot ours =
      OwnPart(tool, *tool.undo, method, call, *read, planned, StateLeft(tool, planned, call));
  const auto now = ReadSnapshot(*tool.before, Respond(200, shown).answer, false);
  EXPECT_TRUE(now) << shown;
  return DriftOf(*read, ours, *now);
}

struct Row {
  const char *tool, *method, *before, *body, *shown;
};

TEST(OwnPartTest, WhatTheCallDidIsItsOwn) {
  const Row rows[] = {
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":"2026-01-01T10:00:00Z"})",
       R"({"title":"B"})", R"({"title":"B","labels":["x"],"updated_at":"2026-01-01T10:00:09Z"})"},
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})", R"({"title":" B "})",
       R"({"title":"b","labels":["x"],"updated_at":2})"},
      {"update", "PATCH", R"({"title":"A","labels":[{"id":1,"name":"x"}],"updated_at":1})",
       R"({"labels":["y"]})", R"({"title":"A","labels":[{"id":2,"name":"y"}],"updated_at":2})"},
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})",
       R"([{"op":"add","path":"/labels/-","value":"y"}])",
       R"({"title":"A","labels":["x","y"],"updated_at":2})"},
      {"update", "PATCH", R"({"title":"A","labels":["x","y"],"updated_at":1})",
       R"([{"op":"remove","path":"/labels/0"}])", R"({"title":"A","labels":["y"],"updated_at":2})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":2},"updated_at":1})",
       R"({"labels":{"a":3}})", R"({"title":"A","labels":{"a":3,"b":2},"updated_at":1})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":2},"updated_at":1})",
       R"([{"op":"replace","path":"/labels","value":{"a":3}}])",
       R"({"title":"A","labels":{"a":3},"updated_at":1})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":2},"updated_at":1})",
       R"({"labels":{"a":3,"b":null}})", R"({"title":"A","labels":{"a":3},"updated_at":1})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":""},"updated_at":1})",
       R"({"labels":{"a":3}})", R"({"title":"A","labels":{"a":3,"b":""},"updated_at":1})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":[],"b":2},"updated_at":1})",
       R"({"labels":{"a":[1]}})", R"({"title":"A","labels":{"a":[1],"b":2},"updated_at":1})"},
      {"update", "PATCH", R"({"title":"A","labels":["x","z"],"updated_at":1})",
       R"([{"op":"add","path":"/labels/-","value":"y"}])",
       R"({"title":"A","labels":["z","y","x"],"updated_at":2})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":2},"updated_at":1})",
       R"({"labels":null})", R"({"title":"A","labels":null,"updated_at":1})"},
      {"replace", "PUT", R"({"id":7,"text":"A","tree":{"b":1}})", R"({"text":"B"})",
       R"({"id":7,"text":"B"})"},
      {"replace", "PUT", R"({"id":7,"text":"A","etag":"1","sequence":4})", R"({"text":"B"})",
       R"({"id":7,"text":"B","etag":"2","sequence":5})"},
      {"patch", "PATCH", R"({"id":7,"text":"A","at":{"date":"2026-01-01"},"updated":"x"})",
       R"({"at":{"date":"2026-01-02"}})",
       R"({"id":7,"text":"A","at":{"date":"2026-01-02T00:00:00Z"},"updated":"y"})"},
      {"patch", "PATCH", R"({"text":"A","at":{"time":"x","zone":"y"}})",
       R"({"at":{"date":"2026-01-02","time":null,"zone":""}})",
       R"({"text":"A","at":{"date":"2026-01-02","zone":null}})"},
      {"replace", "PUT", R"({"text":"A","at":{"time":"x","zone":"y"}})",
       R"({"text":"A","at":{"date":"2026-01-02"}})",
       R"({"text":"A","at":{"date":"2026-01-02","zone":null}})"},
      {"assign", "PUT", R"({"assignee":{"id":"u1"}})", R"({"who":"u2"})",
       R"({"assignee":{"id":"u2"}})"},
      {"assign", "PUT", R"({"assignee":{"id":"u1"}})", R"({"who":null})", R"({"assignee":null})"},
      {"name", "PUT", R"({"name":{"a":1,"b":2},"note":"n"})", R"({"name":{"a":3}})",
       R"({"name":{"a":3},"note":"n"})"},
      {"tag", "POST", R"([{"name":"x"}])", R"({"labels":["y"]})", R"([{"name":"x"},{"name":"y"}])"},
      {"close", "POST", R"({"state":"open"})", "", R"({"state":"closed"})"},
  };
  for (const auto& [tool, method, before, body, shown] : rows) {
    EXPECT_EQ(DriftAfter(tool, method, before, body, shown), Drift::kUnchanged)
        << tool << ' ' << body << ' ' << shown;
  }
}

TEST(OwnPartTest, WhatItDidNotSetMayBeSomebodyElses) {
  const Row rows[] = {
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})", R"({"title":"B"})",
       R"({"title":"B","labels":["y"],"updated_at":3})"},
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})", R"({"title":"B"})",
       R"({"title":"B","labels":null,"updated_at":3})"},
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})", R"({"title":"B"})",
       R"({"title":"C","labels":["x"],"updated_at":3})"},
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})",
       R"([{"op":"add","path":"/labels/-","value":"n"}])",
       R"({"title":"A","labels":["x","y","n"],"updated_at":3})"},
      {"update", "PATCH", R"({"title":"A","labels":["x"],"updated_at":1})",
       R"([{"op":"replace","path":"/title","value":"B"}])",
       R"({"title":"B","labels":["y"],"updated_at":3})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":2},"updated_at":1})",
       R"({"labels":{"a":3}})", R"({"title":"A","labels":{"a":3,"b":9},"updated_at":1})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":1,"b":2,"c":3},"updated_at":1})",
       R"({"labels":{"a":3}})", R"({"title":"A","labels":{"a":3,"c":3},"updated_at":1})"},
      {"update", "PATCH", R"({"version":1,"title":"A","labels":["x"],"updated_at":1})",
       R"({"title":"B"})", R"({"version":3,"title":"B","labels":["x"],"updated_at":1})"},
      {"replace", "PUT", R"({"id":7,"text":"A","note":"n"})", R"({"text":"B"})",
       R"({"id":7,"text":"B","note":"theirs"})"},
      {"patch", "PATCH", R"({"id":7,"text":"A","tree":{"b":1}})", R"({"text":"B"})",
       R"({"id":7,"text":"B","tree":{"b":2}})"},
      {"patch", "PATCH", R"({"id":7,"text":"A","tree":{"b":1}})", R"({"text":"B"})",
       R"({"id":7,"text":"B","tree":{}})"},
      {"patch", "PATCH", R"({"text":"A","note":"n"})", R"({"text":"B"})",
       R"({"text":"B","note":null})"},
      {"patch", "PATCH", R"({"text":"A","note":"n"})", R"({"text":"B"})", R"({"text":"B"})"},
      {"update", "PATCH", R"({"title":"A","labels":{"a":{"b":1}},"updated_at":1})",
       R"({"title":"B"})", R"({"title":"B","labels":{"a":{}},"updated_at":1})"},
      {"patch", "PATCH", R"({"id":7,"text":"A","sequence":4})", R"({"text":"B"})",
       R"({"id":7,"text":"B","sequence":6})"},
      {"update", "PATCH", R"({"title":"A","labels":["x","z"],"updated_at":1})",
       R"([{"op":"add","path":"/labels/-","value":"n"}])",
       R"({"title":"A","labels":["x","n"],"updated_at":3})"},
      {"assign", "PUT", R"({"assignee":{"id":"u1"}})", R"({"who":"u2"})",
       R"({"assignee":{"id":"u3"}})"},
      {"name", "PUT", R"({"name":"A","note":"n"})", R"({"name":"B"})",
       R"({"name":"B","note":null})"},
      {"name", "PUT", R"({"name":"A","note":"n"})", R"({"name":"B"})",
       R"({"name":"B","note":"theirs"})"},
      {"tag", "POST", R"([{"name":"x"}])", R"({"labels":["n"]})",
       R"([{"name":"x"},{"name":"y"},{"name":"n"}])"},
  };
  for (const auto& [tool, method, before, body, shown] : rows) {
    EXPECT_EQ(DriftAfter(tool, method, before, body, shown), Drift::kChanged)
        << tool << ' ' << body << ' ' << shown;
  }
}

// A PATCH may have replaced such an object whole, or somebody may have emptied what it leaves
// alone: nobody can tell. Nor is one kind of nothing another one.
TEST(OwnPartTest, WhatIsLostBesideWhatItNamesInAnObjectMayBeSomebodyElses) {
  struct Loss {
    const char *before, *set, *shown;
  };
  const Loss losses[] = {
      {R"({"a":1,"b":2})", R"({"a":3})", R"({"a":3,"b":null})"},
      {R"({"a":1,"b":2})", R"({"a":3})", R"({"a":3,"b":""})"},
      {R"({"a":1,"b":2})", R"({"a":3})", R"({"a":3})"},
      {R"({"a":1,"b":2})", R"({"a":1})", R"({"a":1})"},
      {R"({"a":1,"b":2})", R"({})", R"({})"},
      {R"({"a":1,"b":2,"c":3})", R"({"a":3})", R"({"a":3,"b":null,"c":null})"},
      {R"({"a":1,"b":{"c":2}})", R"({"a":3})", R"({"a":3,"b":{}})"},
      {R"({"a":1,"b":{"c":2}})", R"({"b":{"d":3}})", R"({"a":1,"b":{"d":3}})"},
      {R"({"a":1,"b":{"c":2}})", R"({"b":{"d":3}})", R"({"a":1,"b":{"d":3,"c":null}})"},
      {R"({"a":1,"b":""})", R"({"a":3})", R"({"a":3,"b":null})"},
      {R"({"a":1,"b":null})", R"({"a":3})", R"({"a":3,"b":""})"},
      {R"({"a":1,"b":[]})", R"({"a":3})", R"({"a":3,"b":{}})"},
      {R"({"a":1,"b":{}})", R"({"a":3})", R"({"a":3,"b":[]})"},
      {R"({"a":1,"b":null})", R"({"a":3})", R"({"a":3})"},
      {R"({"a":1})", R"({"a":3})", R"({"a":3,"b":null})"},
      {R"({"a":1})", R"({"a":3})", R"({"a":3,"b":4})"},
      {R"({})", R"({"a":3})", R"({"a":3,"b":4})"},
  };
  for (const auto& [before, set, shown] : losses) {
    const auto labels = [](const char* value) {
      return R"({"title":"A","labels":)" + std::string(value) + R"(,"updated_at":1})";
    };
    const std::string body = R"({"labels":)" + std::string(set) + "}";
    EXPECT_EQ(DriftAfter("update", "PATCH", labels(before), body, labels(shown)), Drift::kChanged)
        << before << ' ' << set << ' ' << shown;
    const auto thing = [](const char* value) { return R"({"tree":)" + std::string(value) + "}"; };
    EXPECT_EQ(DriftAfter("patch", "PATCH", thing(before), R"({"tree":)" + std::string(set) + "}",
                         thing(shown)),
              Drift::kChanged)
        << before << ' ' << set << ' ' << shown;
  }
}

// Where the answer does not show what is left, what is planned must not be what somebody else made
// of it.
TEST(OwnPartTest, AnUpdateLeavesTheRestOfAnObjectAsItWas) {
  const Tool& tool = *Rules()->FindTool("update");
  const Snapshot before{.places = {{"/title", R"("A")"}, {"/labels", R"({"a":{"c":1},"b":2})"}}};
  const Json body = *ParseJson(R"({"title":"B","labels":{"a":{"d":3}}})");
  CallValues call;
  call.body = &body;
  const Snapshot planned = PlannedState(tool, before, "PATCH", call);
  EXPECT_EQ(planned.places[0].second, R"("B")");
  EXPECT_EQ(planned.places[1].second, R"({"a":{"c":1,"d":3},"b":2})");
  EXPECT_EQ(PlannedState(tool, before, "PUT", call).places[1].second, R"({"a":{"d":3}})");
}

// Of a thing that is kept whole a PUT leaves nothing else.
TEST(OwnPartTest, AnUpdateLeavesTheRestOfTheWholeAsItWas) {
  const Tool& tool = *Rules()->FindTool("patch");
  const Snapshot before{.places = {{"", R"({"a":1,"b":2})"}}};
  const Json body = *ParseJson(R"({"b":[3],"c":4})");
  CallValues call;
  call.body = &body;
  EXPECT_EQ(PlannedState(tool, before, "PATCH", call).places[0].second, R"({"a":1,"b":[3],"c":4})");
  EXPECT_EQ(PlannedState(tool, before, "PUT", call).places[0].second, R"({"b":[3],"c":4})");
}

// One issue, which somebody else changes whenever a test says so.
class Tracker : public World {
 public:
  Tracker() : World(Rules()) {
    upstream.probe = [this](const HttpRequest&) { return Respond(200, Text()); };
    upstream.decide = [this](const HttpRequest& request) {
      if (std::exchange(meanwhile, false)) labels = theirs;
      const Json body = *ParseJson(request.body);
      for (const Json::Member& member : body.members) {
        std::string text;
        (void)AppendJson(text, member.second);
        (member.first == "title" ? title : labels) = text;
      }
      ++version;
      return Respond(200, tells ? Text() : "{}");
    };
    StartFlows();
  }
  std::string title = "\"A\"", labels = R"(["x"])", theirs = R"(["y"])";
  int version = 1;
  bool meanwhile = false;  // somebody else sets the labels just before the next write
  bool tells = true;

  std::string Text() const {
    return R"({"title":)" + title + R"(,"labels":)" + labels + R"(,"updated_at":)" +
           std::to_string(version) + "}";
  }
  void Update(const std::string& body) {
    CallSpec call;
    call.method = "PATCH";
    call.host = "tracker.test";
    call.target = "/issues/7";
    call.body = body;
    EXPECT_EQ(Call(call).status, 200);
  }
  FlowPhase Cancel() {
    CallSpec call;
    call.host = "tracker.test";
    call.headers.emplace_back("Recourse-Flow", "cancel");
    (void)Call(call);
    loop.RunFor(Millis(3'600'000));
    return ledger.NewestFlows(1)->back().phase;
  }
};

TEST(OwnPartTest, WhatSomebodyWroteJustBeforeTheCallIsNotOverwritten) {
  for (const bool tells : {true, false}) {
    Tracker world;
    world.tells = tells;
    world.meanwhile = true;
    world.Update(R"({"title":"B"})");
    EXPECT_EQ(world.Cancel(), FlowPhase::kNeedsHuman);
    EXPECT_EQ(world.labels, R"(["y"])");
    EXPECT_EQ(world.upstream.writes.size(), 1U);
    EXPECT_NE(world.ledger.NewestFlows(1)->back().reason.find("/labels"), std::string::npos);
  }
}

TEST(OwnPartTest, NothingOfOthersIsOverwrittenWheneverTheyWrite) {
  std::mt19937 random(20261129);
  const auto draw = [&](unsigned most) { return static_cast<int>(random() % most); };
  int undone = 0, parked = 0;
  for (int round = 0; round < 1'000; ++round) {
    Tracker world;
    world.tells = draw(3) != 0;
    world.meanwhile = draw(2) == 0;
    const bool is_theirs = world.meanwhile;
    const char* const bodies[] = {R"({"title":"B"})", R"({"title":"A"})",
                                  R"({"title":"B","labels":["x"]})"};
    const char* const body = bodies[draw(is_theirs ? 2 : 3)];
    world.theirs = draw(2) == 0 ? R"(["y"])" : R"(["x","y"])";
    world.Update(body);
    const FlowPhase end = world.Cancel();
    if (is_theirs) {
      ASSERT_EQ(world.labels, world.theirs) << round;
      ++parked;
    } else if (world.tells) {  // else nobody knows what it left of updated_at
      ASSERT_EQ(end, FlowPhase::kUndone) << round;
      ASSERT_EQ(world.title + world.labels, R"("A"["x"])") << round;
      ++undone;
    }
  }
  EXPECT_GT(undone, 100);
  EXPECT_GT(parked, 100);
}

}  // namespace
}  // namespace recourse::own_part_test
