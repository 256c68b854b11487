// What a backend of the drill tells of its effects: by searches, and later; also where the policy
// is wrong about it.
#include "proxy/drill/scripted_backend.h"

#include <gtest/gtest.h>

#include "filters/call/upstream_request.h"
#include "proxy/drill/drill_check.h"
#include "proxy/drill/drill_plan.h"
#include "tests/policy/policy_builder.h"

namespace recourse::scripted_backend_test {
namespace {

using Kind = Action::Kind;

const std::string kKey(64, 'a');

// One tool and its backend.
class One {
 public:
  One(const std::string& words, Ambiguities doubts = {}, std::size_t undo = 0)
      : policy_(LoadGood("backends: { shop: { url: \"http://shop\" } }\ntools:\n  make:\n"
                         "    match: POST shop /orders\n    effect: write\n"
                         "    identity: body#/cart\n    external_ref: answer.body#/id\n" +
                         words)),
        script_({ScriptCall(*policy_, *policy_->FindTool("make"), 1, undo).value()}),
        backend_(script_, {.refused = {}, .lost_answer = {}, .doubts = doubts}) {}

  const ScriptedCall& call() const { return script_[0]; }
  HttpResponse Send(HttpRequest request) {
    SetHeader(request.headers, "Host", "shop");
    return backend_.Handle(request).head;
  }
  HttpResponse Send(const std::optional<RenderedRequest>& request) {
    EXPECT_TRUE(request);
    return request ? Send(HttpRequest{request->method, request->target, {}, request->body})
                   : HttpResponse();
  }
  std::vector<Kind> Kinds() const {
    std::vector<Kind> kinds;
    for (const Action& deed : backend_.deeds()) kinds.push_back(deed.kind);
    return kinds;
  }
  // How the promise is broken by a ledger that says `phase` of the step.
  std::vector<std::string> BrokenIf(const std::string& phase, const std::string& flow) const {
    Found found{.deeds = backend_.deeds(),
                .flows = {{.phase = flow, .reason = "", .steps = {{"make", phase}}}},
                .told_done = {phase == "SUCCEEDED"},
                .is_verified = true,
                .problem = {}};
    return Reckon({{"make", true}}, found, flow != "COMMITTED").broken;
  }

 private:
  const std::shared_ptr<const Policy> policy_;
  const std::vector<ScriptedCall> script_;
  ScriptedBackend backend_;
};

constexpr const char* kSearch = R"(
    settle:
      request: "POST /search"
      safe: true
      json: { cart: "{body#/cart}" }
      mark: body#/meta/key
      happened: { in: answer.body#/hits, where: "meta/key == {key}", take: id }
      absent_after: 1s
    undo: { request: "DELETE /orders/{external_ref}" }
)";

HttpRequest Marked(const One& one) {
  HttpRequest request = one.call().request;
  EXPECT_FALSE(PutIn({{{one.call().tool->settle->mark, kKey}}, false}, request).empty());
  return request;
}

TEST(ScriptedSearch, FindsAmongOthersWhatCameWithTheMark) {
  One one(kSearch);
  EXPECT_EQ(one.Send(ProbeOf(one.call(), kKey)).body, R"({"hits":[]})");
  EXPECT_EQ(one.Send(Marked(one)).status, 200);
  const std::string stranger = R"({"id":"stranger","meta":{"key":"of a stranger"}})";
  const std::string ours = R"({"id":"drill-1-id","meta":{"key":")" + kKey + R"("}})";
  EXPECT_EQ(one.Send(ProbeOf(one.call(), kKey)).body, "{\"hits\":[" + stranger + "," + ours + "]}");
  EXPECT_EQ(one.Kinds(), (std::vector{Kind::kProbe, Kind::kEffect, Kind::kProbe}));
}

TEST(ScriptedSearch, OfWhatCameWithoutAMarkSaysWhatTheBackendWasNotTold) {
  One one(kSearch);
  EXPECT_EQ(one.Send(one.call().request).status, 200);
  const HttpResponse found = one.Send(ProbeOf(one.call(), kKey));
  EXPECT_EQ(found.body.find(kKey), std::string::npos) << found.body;
}

TEST(ScriptedSearch, MayFindAnEffectLaterThanThePolicyAllowsFor) {
  One one(kSearch, {.absent_after = true});
  (void)one.Send(Marked(one));
  int looks = 0;
  while (looks < 10 && one.Send(ProbeOf(one.call(), kKey)).body == R"({"hits":[]})") ++looks;
  EXPECT_GT(looks, limits::kProbesAbsentMin) << "so many say that it is absent";
  EXPECT_LT(looks, 10);
}

constexpr const char* kLater = R"(
    settle: none
    settled_by:
      request: "GET /jobs/{answer.body#/job}"
      until: 'answer.body#/state == "done"'
    undo:
      request: "DELETE /orders/{external_ref}"
      settled_by: { request: GET, until: answer.status == 404 }
)";

TEST(ScriptedJob, IsDoneWhenItIsAskedAgainAndSoIsItsUndo) {
  One one(kLater);
  EXPECT_EQ(one.Send(one.call().request).status, 200);
  EXPECT_EQ(one.Send(LaterQuestionOf(one.call(), kKey)).body,
            R"({"drill":"busy","state":"done-other"})");
  EXPECT_EQ(one.Send(LaterQuestionOf(one.call(), kKey)).body, R"({"drill":"busy","state":"done"})");
  EXPECT_EQ(one.Send(UndoOf(one.call(), kKey)).status, 200);
  const auto question = LaterQuestionOfUndo(one.call(), kKey);
  ASSERT_TRUE(question);
  EXPECT_EQ(question->target, "/orders/drill-1-id");
  EXPECT_EQ(one.Send(question).status, 200);
  EXPECT_EQ(one.Send(question).status, 404);
  EXPECT_EQ(one.Kinds(), (std::vector{Kind::kEffect, Kind::kUndone}));
  EXPECT_TRUE(one.BrokenIf("COMPENSATED", "UNDONE").empty());
}

TEST(ScriptedJob, ThatSaysDoneOfWhatNeverTookEffectBreaksThePromise) {
  One one(kLater, {.settled_by = true});
  EXPECT_EQ(one.Send(one.call().request).status, 200) << "it was taken on";
  (void)one.Send(LaterQuestionOf(one.call(), kKey));
  EXPECT_EQ(one.Send(LaterQuestionOf(one.call(), kKey)).body, R"({"drill":"busy","state":"done"})");
  EXPECT_TRUE(one.Kinds().empty()) << "nothing took effect";
  EXPECT_EQ(
      one.BrokenIf("SUCCEEDED", "COMMITTED"),
      (std::vector<std::string>{"the log says SUCCEEDED of make, which had no effect",
                                "the agent was told that make is done, which had no effect"}));
}

TEST(ScriptedUndo, ThatIsAnsweredAsDoneAndUndoesNothingBreaksThePromise) {
  One one("    settle: none\n    undo: { request: \"DELETE /orders/{external_ref}\" }\n",
          {.done = true});
  (void)one.Send(one.call().request);
  EXPECT_EQ(one.Send(UndoOf(one.call(), kKey)).status, 200);
  EXPECT_EQ(one.Kinds(), (std::vector{Kind::kEffect, Kind::kUndoAgain}));
  const auto broken = one.BrokenIf("COMPENSATED", "UNDONE");
  ASSERT_FALSE(broken.empty());
  EXPECT_EQ(broken[0], "the log says that make is undone, but its effect stands");
}

// An `identity` of all of a body: Recourse takes objects and lists alone for arguments.
TEST(ScriptCall, WhoseWholeBodyIsReadHasAnObjectForIt) {
  const auto policy = LoadGood(R"(
backends: { shop: { url: "http://shop" } }
tools:
  put:
    match: "PUT shop /orders/{id}"
    effect: write
    settle: none
    identity: [ path.id, body# ]
    before: { request: "GET /orders/{path.id}", keep: body#/note }
    undo: { request: "PUT /orders/{path.id}", json: { note: "{before.body#/note}" }, rest: stays }
)");
  const auto call = ScriptCall(*policy, *policy->FindTool("put"), 1);
  ASSERT_TRUE(call) << call.error();
  EXPECT_EQ(call->request.body, R"({"note":"drill-1-note"})");
}

constexpr const char* kSeveral = R"(
    settle: none
    undo:
      - when: answer.body#/state == "held"
        request: "POST /orders/{external_ref}/cancel"
      - when: [ answer.body#/state == "paid", body#/branch ]
        request: "POST /refunds"
        json: { order: "{external_ref}", branch: "{body#/branch}" }
        repeatable: true
      - when: answer.body#/state == "paid"
        request: "POST /refunds"
        json: { order: "{external_ref}" }
)";

TEST(ScriptedUndo, IsTheOneOfSeveralThatIsWanted) {
  const std::pair<std::string, std::string> wanted[] = {
      {"/orders/drill-1-id/cancel", ""},
      {"/refunds", R"({"order":"drill-1-id","branch":"drill-1-branch"})"},
      {"/refunds", R"({"order":"drill-1-id"})"}};
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    One one(kSeveral, {}, i);
    (void)one.Send(one.call().request);
    const auto undo = UndoOf(one.call(), kKey);
    ASSERT_TRUE(undo) << i;
    EXPECT_EQ(undo->target, wanted[i].first);
    EXPECT_EQ(undo->body, wanted[i].second);
    for (int sent = 0; sent < 2; ++sent) (void)one.Send(undo);
    EXPECT_EQ(one.Kinds().back(), i == 1 ? Kind::kUndoAgain : Kind::kUndone) << "its own promise";
  }
}

TEST(DrillPlan, EveryUndoRequestIsPlayedOrNamed) {
  const auto policy = LoadGood(std::string(R"(
backends: { shop: { url: "http://shop" } }
tools:
  other:
    match: POST shop /other
    effect: write
    settle: none
    identity: body#/cart
    undo:
      - { when: body#/a == 1, request: "POST /first" }
      - { when: [ body#/a == 1, body#/b ], request: "POST /never" }
  make:
    match: POST shop /orders
    effect: write
    identity: body#/cart
    external_ref: answer.body#/id
)") + kSeveral);
  const DrillPlan plan = PlanDrill(*policy, "");
  std::vector<std::string> played;
  for (const Scenario& scenario : plan.flows.at(0).scenarios) {
    for (const ScriptedCall& call : scenario.script) {
      if (call.undo != &*call.tool->undo) played.push_back(scenario.what + ": " + call.tool->name);
    }
  }
  EXPECT_EQ(played, (std::vector<std::string>{
                        "an operator cancels it, and undo request 2 is the one: make",
                        "an operator cancels it, and undo request 3 is the one: make"}));
  const auto named = std::ranges::find(plan.skipped, "other: undo request 2", &Skipped::what);
  ASSERT_NE(named, plan.skipped.end());
  EXPECT_EQ(named->why, "no made-up call is undone by its request number 2");
}

}  // namespace
}  // namespace recourse::scripted_backend_test
