// Calls and answers made up from a policy, and a backend that plays them.
#include "proxy/drill/script.h"

#include <gtest/gtest.h>

#include "filters/call/call_values.h"
#include "policy/model/route_table.h"
#include "proxy/drill/drill_plan.h"
#include "proxy/drill/mcp_message.h"
#include "proxy/drill/scripted_backend.h"
#include "tests/policy/policy_builder.h"

namespace recourse::script_test {
namespace {

constexpr const char* kShop = R"(
backends:
  shop: { url: "http://shop/base" }
  pay: { url: "https://pay", key_header: Idempotency-Key }
tools:
  orders.create:
    match: "POST shop /customers/{customer}/orders"
    effect: write
    identity: [ body#/cart/0/id, query.source ]
    external_ref: answer.body#/order/id
    settle: { request: "GET /orders?cart={body#/cart/0/id}", happened: "answer.body#/items/0/id" }
    undo:
      request: "DELETE /orders/{external_ref}?by={path.customer}"
      done: [ 2xx, 404 ]
      repeatable: true
  charge:
    match: POST pay /charges
    effect: write
    identity: [ body#/order ]
    success_when: [ answer.body#/ok == true, answer.body#/amount > 10 ]
    failed_when: 'answer.body#/error == "declined"'
    undo:
      request: "POST /refunds"
      json: { charge: "{external_ref}", amount: "{answer.body#/amount as number}", key: "{key}" }
      credentials: from_call
      done_when: [ answer.body#/refunded == true ]
  mail:
    match: POST shop /mail
    effect: write
    identity: [ body#/to ]
    approval: { by: [ support ], when: [ "body#/count > 100" ] }
  letter:
    match: POST shop /letter
    effect: write
    identity: [ body#/to ]
    approval: { by: [ support ] }
)";

class Script : public ::testing::Test {
 protected:
  ScriptedCall Of(const char* tool) {
    auto call = ScriptCall(*policy_, *policy_->FindTool(tool), 1);
    EXPECT_TRUE(call) << call.error();
    return call ? std::move(*call) : ScriptedCall();
  }
  static HttpRequest Upstream(const ScriptedCall& call, const std::string& key = {}) {
    HttpRequest request = call.request;
    request.target = call.backend->base_path + request.target;
    if (!key.empty()) SetHeader(request.headers, call.backend->key.at.name, key);
    return request;
  }
  static HttpRequest Upstream(const ScriptedCall& call, const RenderedRequest& rendered) {
    return {rendered.method,
            call.backend->base_path + rendered.target,
            {{"Host", call.backend->authority}},
            rendered.body};
  }

  const std::shared_ptr<const Policy> policy_ = LoadGood(kShop);
};

TEST_F(Script, ACallMatchesItsRouteAndHasWhatThePolicyReadsOfIt) {
  const ScriptedCall call = Of("orders.create");
  EXPECT_EQ(call.request.method, "POST");
  EXPECT_EQ(call.request.target, "/customers/drill-1-customer/orders?source=drill-1-source");
  EXPECT_EQ(call.request.body, R"({"cart":[{"id":"drill-1-cart-0-id"}]})");
  const auto undo = UndoOf(call, "");
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->target, "/orders/drill-1-order-id?by=drill-1-customer");
  EXPECT_EQ(ProbeOf(call, "")->target, "/orders?cart=drill-1-cart-0-id");
}

TEST_F(Script, AnAnswerSatisfiesTheConditionsAndTheUndoThatReadsIt) {
  const ScriptedCall call = Of("charge");
  CallValues values = ValuesOf(call, "k");
  for (const Condition& condition : call.tool->success_when) {
    EXPECT_EQ(Evaluate(condition, values), true) << condition.text;
  }
  const auto undo = UndoOf(call, "k");
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->body, R"({"charge":"drill-1-id","amount":11,"key":"k"})");
  EXPECT_NE(FindHeader(call.request.headers, "Authorization"), nullptr);
  EXPECT_EQ(call.refusal.status, 200);
  EXPECT_EQ(call.refusal.body, R"({"error":"declined"})");
  EXPECT_EQ(UndoneAnswer(call, false).body, R"({"refunded":true})");
}

TEST_F(Script, ACallWhoseConditionsAskAHumanIsMadeSoThatItWaitsForOne) {
  for (const char* name : {"mail", "letter"}) {
    const ScriptedCall call = Of(name);
    ASSERT_TRUE(call.tool->approval);
    EXPECT_TRUE(NeedsApproval(*call.tool->approval, ValuesOf(call, {}))) << call.request.body;
  }
}

TEST(McpScript, AnMcpServerDoesUndoesAndTellsByMessages) {
  const auto policy = LoadGood(R"(
backends:
  shop: { url: "http://shop/mcp", protocol: mcp }
tools:
  look: { match: tools/call shop find_order, effect: read }
  create:
    match: "tools/call shop create_*"
    effect: write
    identity: [ body#/cart ]
    settle:
      { call: find_order, arguments: { cart: "{body#/cart}" }, happened: answer.body#/id }
    undo:
      call: cancel_order
      arguments: { id: "{external_ref}" }
      done_when: answer.body#/state == "canceled"
)");
  auto call = ScriptCall(*policy, *policy->FindTool("create"), 1);
  ASSERT_TRUE(call) << call.error();
  const std::vector<ScriptedCall> script{*call};
  ScriptedBackend backend(script, {});
  const Headers host{{"Host", "shop"}};
  const auto own = [&](const std::optional<RenderedRequest>& rendered) {
    return HttpRequest{rendered->method, rendered->target, host, rendered->body};
  };
  const auto told = [&](const HttpRequest& request) {
    return ReadMcpAnswer(backend.Handle(request).head).value_or(McpReply());
  };
  EXPECT_EQ(FindHeader(script[0].request.headers, "Mcp-Name")->substr(), "create_drill");
  EXPECT_EQ(told(own(ProbeOf(script[0], ""))).output, "{}");
  const McpReply done = told(script[0].request);
  EXPECT_TRUE(done.is_done);
  EXPECT_EQ(done.output, R"({"id":"drill-1-id"})");
  EXPECT_EQ(told(own(ProbeOf(script[0], ""))).output, R"({"id":"drill-1-id"})");
  EXPECT_EQ(told(own(UndoOf(script[0], ""))).output, R"({"state":"canceled"})");
  HttpRequest strange = script[0].request;
  strange.body.replace(strange.body.find("create_drill"), 12, "drop_it");
  EXPECT_FALSE(told(strange).is_done);
  std::vector<Action::Kind> kinds;
  for (const Action& deed : backend.deeds()) kinds.push_back(deed.kind);
  using Kind = Action::Kind;
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::kProbe, Kind::kEffect, Kind::kProbe, Kind::kUndone,
                                      Kind::kStrange}));
}

TEST_F(Script, AProbeThatIsNoGetOnlyAsks) {
  const auto policy = LoadGood(R"(
backends:
  shop: { url: "http://shop" }
tools:
  create:
    match: POST shop /orders
    effect: write
    identity: body#/cart
    external_ref: answer.body#/id
    settle: { request: "POST /search", safe: true, json: { query: "{body#/cart}" },
              happened: answer.body#/hits/0/id, absent: "answer.body#/total == 0",
              absent_after: 1s }
    undo: { request: "DELETE /orders/{external_ref}" }
)");
  auto call = ScriptCall(*policy, *policy->FindTool("create"), 1);
  ASSERT_TRUE(call) << call.error();
  const std::vector<ScriptedCall> script{*call};
  ScriptedBackend backend(script, {});
  const auto ask = [&] {
    return backend.Handle(Upstream(script[0], *ProbeOf(script[0], ""))).head;
  };
  EXPECT_EQ(ask().body, R"({"total":0e0})");
  (void)backend.Handle(Upstream(script[0]));
  EXPECT_EQ(ask().body, R"({"hits":[{"id":"drill-1-id"}]})");
  std::vector<Action::Kind> kinds;
  for (const Action& deed : backend.deeds()) kinds.push_back(deed.kind);
  using Kind = Action::Kind;
  EXPECT_EQ(kinds, (std::vector{Kind::kProbe, Kind::kEffect, Kind::kProbe}));
}

TEST_F(Script, ABackendKnowsARepeatByItsKeyAloneAndTellsWhatItDid) {
  const std::vector<ScriptedCall> script{Of("orders.create"), Of("charge")};
  ScriptedBackend backend(script, {});
  EXPECT_EQ(backend.Handle(Upstream(script[0], *ProbeOf(script[0], ""))).head.status, 404);
  for (int i = 0; i < 2; ++i) (void)backend.Handle(Upstream(script[0]));
  for (int i = 0; i < 2; ++i) (void)backend.Handle(Upstream(script[1], std::string(64, 'a')));
  EXPECT_EQ(backend.Handle(Upstream(script[0], *ProbeOf(script[0], ""))).head.body,
            R"({"items":[{"id":"drill-1-order-id"}]})");
  std::vector<Action::Kind> kinds;
  for (const Action& deed : backend.deeds()) kinds.push_back(deed.kind);
  using Kind = Action::Kind;
  EXPECT_EQ(kinds, (std::vector{Kind::kProbe, Kind::kEffect, Kind::kEffect, Kind::kEffect,
                                Kind::kRepeat, Kind::kProbe}));
}

TEST_F(Script, AnUndoThatComesAgainActsAgainUnlessThePolicyOrAKeySaysElse) {
  const std::vector<ScriptedCall> script{Of("orders.create"), Of("charge")};
  for (const bool doubted : {false, true}) {
    ScriptedBackend backend(script,
                            {.refused = {}, .lost_answer = {}, .doubts = {.repeatable = doubted}});
    (void)backend.Handle(Upstream(script[0]));
    const auto undo = Upstream(script[0], *UndoOf(script[0], ""));
    EXPECT_EQ(backend.Handle(undo).head.status, 200);
    EXPECT_EQ(backend.Handle(undo).head.status, 404);
    EXPECT_EQ(backend.deeds().back().kind,
              doubted ? Action::Kind::kUndone : Action::Kind::kUndoAgain);
  }
  ScriptedBackend backend(script, {});
  (void)backend.Handle(Upstream(script[1], std::string(64, 'a')));
  const auto undo = Upstream(script[1], *UndoOf(script[1], std::string(64, 'b')));
  for (int i = 0; i < 2; ++i) (void)backend.Handle(undo);
  EXPECT_EQ(backend.deeds().back().kind, Action::Kind::kUndone) << "no key came, and no repeatable";
}

TEST_F(Script, ARequestThatNothingExplainsIsWrittenDown) {
  const std::vector<ScriptedCall> script{Of("orders.create")};
  ScriptedBackend backend(script, {});
  (void)backend.Handle(Upstream(script[0], *UndoOf(script[0], "")));
  ASSERT_EQ(backend.deeds().size(), 1U);
  EXPECT_EQ(backend.deeds()[0].kind, Action::Kind::kStrange) << "nothing was done that it undoes";
}

TEST(DrillPlan, AFlowIsPlayedToItsEndBrokenCanceledLostAndAbandoned) {
  const auto policy = LoadGood(R"(
backends: { b: { url: "http://b" } }
tools:
  one: { match: POST b /one, effect: write, identity: [ body#/a ], reason: none }
  two:
    match: POST b /two
    effect: write
    identity: [ body#/a ]
    breaks_flow: on_failure
    undo: { request: "DELETE /two/{external_ref}" }
  end: { match: POST b /end, effect: write, identity: [ body#/a ], reason: it ends the flow }
  stop: { match: POST b /off, effect: write, identity: [ body#/a ], reason: it cancels the flow }
  other: { match: POST b /other, effect: write, identity: [ body#/a ], reason: none }
flows:
  shop:
    tools: [ one, end, two, stop ]
    ends_with: end
    canceled_by: stop
    deadline: 5m
    on_deadline: undo
)");
  const DrillPlan plan = PlanDrill(*policy, "");
  ASSERT_EQ(plan.flows.size(), 2U);
  std::vector<std::string> played;
  for (const Scenario& scenario : plan.flows[0].scenarios) {
    std::string text = scenario.what + ":";
    for (const ScriptedCall& call : scenario.script) text += " " + call.tool->name;
    played.push_back(text);
  }
  EXPECT_EQ(played, (std::vector<std::string>{
                        "every step succeeds: one two end",
                        "two is refused, which breaks the flow: one two",
                        "stop cancels it: one two stop",
                        "the answer of end is lost: one two end",
                        "the agent dies after 1 of 3 steps, and the deadline passes: one",
                    }));
  EXPECT_EQ(plan.flows[1].name, "b (no flow declared)");
  ASSERT_EQ(plan.skipped.size(), 1U);
  EXPECT_NE(plan.skipped[0].why.find("no deadline"), std::string::npos);
  EXPECT_EQ(PlanDrill(*policy, "shop").flows.size(), 1U);
  EXPECT_TRUE(PlanDrill(*policy, "shoe").flows.empty());
}

TEST(DrillPlan, ThePolicyOfADrillKnowsNothingReal) {
  auto loaded = LoadPolicyText("policy.yaml", R"(
version: 1
mode: observe
backends:
  pay:
    url: "https://api.pay.example"
    addresses: [ public, 10.0.0.0/8 ]
    tls: { ca_file: /ca.pem, client_cert: /c.pem, client_key: /k.pem }
tools:
  charge:
    match: POST pay /charges
    effect: write
    identity: [ body#/a ]
    undo:
      request: "POST /refunds"
      credentials: { Authorization: { file: /run/secrets/pay, prefix: "Bearer " } }
    approval: { by: [ sre ], credentials: { Authorization: { file: /run/secrets/pay } } }
flow_rules: { webhook: { url: "https://pager.example/hook", secret_file: /run/secrets/hook } }
)");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  Policy& policy = *loaded.policy;
  AdaptPolicy(policy, 4711, Millis(1000));
  const Backend& backend = policy.backends[0];
  EXPECT_EQ(backend.scheme + "://" + backend.host, "http://127.0.0.1");
  EXPECT_EQ(backend.port, 4711);
  EXPECT_EQ(backend.authority, "api.pay.example") << "the Host field still names it";
  EXPECT_EQ(policy.routes->FindBackend("api.pay.example", 80), &backend);
  EXPECT_FALSE(backend.addresses.Allow(*ParseIpAddress("10.0.0.7")));
  EXPECT_FALSE(backend.addresses.Allow(*ParseIpAddress("203.0.113.7")));
  EXPECT_TRUE(backend.addresses.Allow(*ParseIpAddress("127.0.0.1")));
  EXPECT_EQ(backend.tls_ca_file + backend.tls_client_cert + backend.tls_client_key, "");
  EXPECT_TRUE(policy.tools[0].undo->secrets.empty()) << "no credential is read";
  EXPECT_TRUE(policy.tools[0].approval->secrets.empty());
  const auto& field = policy.tools[0].undo->request.headers.back();
  EXPECT_EQ(field.first, "Authorization");
  EXPECT_EQ(field.second.front().literal, "Bearer drill-placeholder");
  EXPECT_FALSE(policy.flow_rules.webhook);
  EXPECT_EQ(policy.mode, Mode::kEnforce);
}

}  // namespace
}  // namespace recourse::script_test
