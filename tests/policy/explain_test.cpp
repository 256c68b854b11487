#include "policy/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "policy/explain/check.h"
#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::explain_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kExamples = "policy/examples/";
constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

constexpr char kPolicy[] = R"(
unlisted: { reads: pass, writes: guard }
backends: { orders: { url: "http://orders:8080" } }
tools:
  get:    { match: "GET orders /orders/{id}", effect: read }
  create: { match: POST orders /orders, effect: write, reason: r, identity: [ body#/a, query.b ] }
  note:   { match: POST orders /notes, effect: write, reason: r }
  run:    { match: POST orders /runs, effect: write, reason: r, scope: "header:X-Run" }
  all:    { match: POST orders /all, effect: write, reason: r, scope: global }
  pay:    { match: POST orders /pay, effect: write, approval: { by: a, when: body#/n > 10 } }
)";

std::string KeyOf(const std::string& call, const Headers& headers, const std::string& body) {
  const auto policy = LoadGood(kPolicy);
  ExplainedCall parsed;
  EXPECT_TRUE(ParseCall(call, parsed)) << call;
  parsed.headers = headers;
  parsed.body = body;
  const Explanation explained = Explain(*policy, parsed);
  if (!explained.refused.empty()) return explained.refused;
  std::string out;
  for (const KeyPart& part : explained.key) out += (out.empty() ? "" : " ") + part.name;
  return out.empty() ? "no key" : out;
}

TEST(ExplainTest, ThatAllArgumentsAreMeantIsSaidBesideThem) {
  std::string text = kPolicy;
  text.replace(text.find("POST orders /notes,"), 19, "POST orders /notes, identity: all,");
  ExplainedCall call;
  ASSERT_TRUE(ParseCall("POST orders /notes", call));
  const auto said = LoadGood(text), unsaid = LoadGood(kPolicy);
  const KeyPart args = Explain(*said, call).key.back(), same = Explain(*unsaid, call).key.back();
  EXPECT_EQ(args.name, same.name);
  EXPECT_EQ(args.source, same.source + " (identity: all)");
}

TEST(ExplainTest, WhatNoToolSeesProvesNothing) {
  ExplainedCall call;
  ASSERT_TRUE(ParseCall("POST orders /notes", call));
  call.headers = {{"Proxy-Authorization", "Basic x"}, {"Proxy-Authenticate", "x"}};
  const auto policy = LoadGood(kPolicy);
  EXPECT_THAT(Explain(*policy, call).notes,
              testing::Contains(HasSubstr("The call carries no credentials")));
  EXPECT_EQ(KeyOf("POST orders /notes", call.headers, "text"), "caller args");
  call.headers.emplace_back("X-Forwarded-User", "ann");
  EXPECT_THAT(Explain(*policy, call).notes,
              testing::Contains(HasSubstr("the same credentials: header X-Forwarded-User.")));
}

TEST(ExplainTest, TheKeyIsMadeOfWhatThePolicyNames) {
  const Headers trace{{"traceparent", kTraceparent}};
  const Headers named{{"traceparent", kTraceparent}, {"Idempotency-Key", "k1"}};
  EXPECT_EQ(KeyOf("GET orders /orders/7", trace, ""), "no key");
  EXPECT_EQ(KeyOf("POST orders /orders", trace, R"({"a":1})"), "caller trace body#/a query.b");
  EXPECT_EQ(KeyOf("POST http://orders:8080/orders?b=1", trace, "{}"),
            "caller trace body#/a query.b");
  EXPECT_EQ(KeyOf("POST orders /orders", trace, "{}"), "caller trace args");
  EXPECT_EQ(KeyOf("POST orders /orders", {}, R"({"a":1})"), "caller body#/a query.b");
  EXPECT_EQ(KeyOf("POST orders /orders", named, R"({"a":1})"), "caller trace body#/a query.b");
  EXPECT_EQ(KeyOf("POST orders /orders", named, "{}"), "caller intent");
  EXPECT_EQ(KeyOf("POST orders /orders", {{"Recourse-Intent", "k1"}}, R"({"a":1})"),
            "caller intent");
  EXPECT_EQ(
      KeyOf("POST orders /notes",
            {{"Authorization", "Bearer x"}, {"Stripe-Account", "a"}, {"Cookie", "_ga=1"}}, "text"),
      "caller tenant credentials args");
  EXPECT_EQ(KeyOf("POST orders /notes", trace, "text"), "caller trace args");
  EXPECT_EQ(KeyOf("POST orders /runs", {{"X-Run", "1"}}, ""), "caller header.X-Run args");
  EXPECT_EQ(KeyOf("POST orders /all", trace, ""), "global args");
  EXPECT_EQ(KeyOf("POST orders /unlisted", trace, ""), "caller trace args");
  EXPECT_EQ(KeyOf("POST orders /orders", {{"Content-Type", "application/x-www-form-urlencoded"}},
                  "a=1&c=2"),
            "caller body#/a query.b");
}

// What `explain` says of the flow of POST orders /orders.
std::string FlowOf(const std::string& rules, const Headers& headers) {
  const auto policy = LoadGood(std::string(kPolicy) + rules);
  ExplainedCall parsed;
  EXPECT_TRUE(ParseCall("POST orders /orders", parsed));
  parsed.headers = headers;
  return Explain(*policy, parsed).flow;
}

TEST(ExplainTest, SaysWhichFlowAWriteWithoutATraceBelongsTo) {
  const std::string pod = "flow_rules: { without_trace: pod }\n";
  const std::string run = "flow_rules: { without_trace: header:X-Run, parent: baggage:run }\n";
  EXPECT_EQ(FlowOf(pod, {{"traceparent", kTraceparent}}), "");
  EXPECT_EQ(FlowOf(pod, {{"Recourse-Flow", "f"}}), "");
  EXPECT_EQ(FlowOf(pod, {}), "the one of this pod (without_trace: pod)");
  EXPECT_EQ(FlowOf(run, {{"X-Run", "r7"}}),
            "that of header X-Run: \"r7\"; without one a flow of one step, unless `parent` finds a "
            "name in it");
  EXPECT_EQ(
      FlowOf("flow_rules: { without_trace: session }\n", {}),
      "that of the header Recourse-Session or Mcp-Session-Id; without one a flow of one step");
  EXPECT_EQ(FlowOf("", {}),
            "a flow of one step: nothing that breaks it undoes another write (flow_rules: "
            "without_trace)");
}

TEST(ExplainTest, RefusalsHaveTheSlugOfTheirAnswer) {
  EXPECT_EQ(KeyOf("GET http://elsewhere/x", {}, ""), "unknown-backend");
  EXPECT_EQ(KeyOf("POST orders /orders/", {}, ""), "ambiguous-path");
  EXPECT_EQ(KeyOf("GET orders /orders/%zz", {}, ""), "malformed-request");
  EXPECT_EQ(KeyOf("GET orders /orders/7?_method=DELETE", {}, ""), "malformed-request");
  EXPECT_EQ(KeyOf("GET orders /orders/7", {{"X-HTTP-Method-Override", "PUT"}}, ""),
            "malformed-request");
  EXPECT_EQ(KeyOf("GET orders /orders/7", {{"X-Rewrite-URL", "/pay"}}, ""), "malformed-request");
  EXPECT_EQ(KeyOf("GET orders /orders/7", {{"SCRIPT_NAME", "/a"}}, ""), "malformed-request");
  EXPECT_EQ(KeyOf("post orders /orders", {}, R"({"a":1})"), "malformed-request");
  EXPECT_EQ(KeyOf("POST orders /orders", {}, R"({"a":1,"a":2})"), "malformed-request");
  EXPECT_EQ(KeyOf("POST orders /pay", {}, R"({"n":10})"), "caller args");
}

TEST(ExplainTest, CallsAreReadInBothForms) {
  ExplainedCall call;
  for (const char* bad : {"", "GET", "GET /x", "GET http://", "GET b x", "G(T b /x", "GET  /x"}) {
    EXPECT_FALSE(ParseCall(bad, call)) << bad;
  }
  ASSERT_TRUE(ParseCall("GET http://h:1?q=1", call));
  EXPECT_EQ(call.authority, "h:1");
  EXPECT_EQ(call.target, "/?q=1");
}

TEST(ExplainTest, EveryExampleLoadsWithoutErrorsAndPassesItsTests) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    const std::string path = entry.path().string();
    std::ostringstream out;
    EXPECT_EQ(RunPolicyCheck(path, out), 0) << out.str();
    EXPECT_EQ(RunPolicyTest(path, out), 0) << out.str();
    EXPECT_FALSE(LoadPolicy(path).policy->tests.empty()) << path;
    ++count;
  }
  EXPECT_GE(count, 2u);
}

TEST(ExplainTest, TheExamplesHaveNoWarnings) {
  EXPECT_EQ(ProblemsOf(LoadPolicy(kExamples + "mcp.yaml")), "");
  EXPECT_EQ(ProblemsOf(LoadPolicy(kExamples + "reference.yaml")), "");
  EXPECT_EQ(ProblemsOf(LoadPolicy(kExamples + "quickstart.yaml")), "");
}

TEST(ExplainTest, TheReferenceExampleMeansWhatItSays) {
  const auto loaded = LoadPolicy(kExamples + "reference.yaml");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const Policy& policy = *loaded.policy;
  EXPECT_EQ(policy.unlisted_writes, UnlistedRule::kGuard);
  const Tool& charge = *policy.FindTool("payments.charge");
  EXPECT_EQ(policy.backends[charge.backend].scheme, "https");
  EXPECT_EQ(policy.backends[charge.backend].key.at.name, "Idempotency-Key");
  EXPECT_EQ(charge.breaks_flow, BreaksFlow::kOnFailure);
  EXPECT_EQ(charge.undo->repeatable, Repeatable::kByKey);
  const Tool& create = *policy.FindTool("orders.create");
  EXPECT_EQ(create.settle->absent_after, Millis(5000));
  EXPECT_TRUE(create.undo->done.Contains(404) && create.undo->done.Contains(204));
  EXPECT_EQ(create.undo->repeatable, Repeatable::kYes);
  const Tool& mail = *policy.FindTool("mail.send");
  EXPECT_FALSE(mail.undo);
  EXPECT_EQ(mail.approval->expires, Millis(15 * 60'000));
  EXPECT_EQ(mail.approval->by, std::vector<std::string>{"team-support"});
  EXPECT_EQ(policy.FindTool("orders.search")->effect, Effect::kRead);
  const Flow& checkout = policy.flows.at(0);
  EXPECT_EQ(policy.tools[*checkout.ends_with].name, "shipping.book");
  EXPECT_EQ(checkout.deadline, Millis(600'000));
  EXPECT_EQ(checkout.on_deadline, OnDeadline::kUndo);
}

class PolicyCommandsTest : public ::testing::Test {
 protected:
  PolicyCommandsTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "recourse-explain-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  ~PolicyCommandsTest() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& yaml) {
    const std::string path = dir_ + "/p.yaml";
    std::ofstream(path) << "version: 1\n" << yaml;
    std::filesystem::permissions(path, std::filesystem::perms(0644));
    return path;
  }
  std::string dir_;
  std::ostringstream out_;
};

TEST_F(PolicyCommandsTest, CheckCountsAndExitsWithThree) {
  EXPECT_EQ(RunPolicyCheck(Write(kPolicy), out_), 0);
  EXPECT_THAT(out_.str(), HasSubstr("1 backend, 6 tools (1 read, 5 write), 0 flows, 0 tests"));
  out_.str("");
  EXPECT_EQ(RunPolicyCheck(Write("mod: x\n"), out_), 3);
  EXPECT_THAT(out_.str(), HasSubstr("invalid: 1 error, 0 warnings"));
  EXPECT_EQ(RunPolicyExplain(Write("mod: x\n"), "GET b /", {}, "", ExplainForm::kText, out_), 3);
  EXPECT_EQ(RunPolicyTest(Write("mod: x\n"), out_), 3);
  EXPECT_EQ(RunPolicyCheck(dir_ + "/none.yaml", out_), 3);
}

TEST_F(PolicyCommandsTest, WhatAWriteCannotCarryIsSaid) {
  const std::string policy = R"(
backends: { b: { url: "http://b:1" } }
tools:
  files.add: { match: "POST b /Uploads/{id}", effect: write, reason: r, answer: stream }
  files.see: { match: "GET b /Uploads/{id}", effect: read }
)";
  EXPECT_EQ(RunPolicyCheck(Write(policy), out_), 0);
  EXPECT_THAT(out_.str(), HasSubstr("warnings\ntools.files.add: a body is read whole and has at"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("files.see")));
  out_.str("");
  const auto explain = [&](const std::string& body) {
    return RunPolicyExplain(Write(policy), "POST b /Uploads/1", {}, body, ExplainForm::kText, out_);
  };
  EXPECT_EQ(explain("x"), 0);
  EXPECT_THAT(out_.str(), HasSubstr("body         a body is read whole"));
  EXPECT_THAT(out_.str(), HasSubstr("answer       passed on as it comes, its end when"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("refused      ")));
  EXPECT_EQ(explain(std::string(limits::kWriteBodyBytesMax + 1, 'x')), 0);
  EXPECT_THAT(out_.str(), HasSubstr("refused      request-too-large"));
}

TEST_F(PolicyCommandsTest, ExplainShowsToolKeyAndReason) {
  const std::string path = Write(kPolicy);
  EXPECT_EQ(RunPolicyExplain(path, "POST http://orders:8080/orders", {}, R"({"a":"x"})",
                             ExplainForm::kText, out_),
            0);
  EXPECT_THAT(out_.str(), HasSubstr("tool         create\n"));
  EXPECT_THAT(out_.str(), HasSubstr("body#/a                identity: \"x\"\n"));
  EXPECT_THAT(out_.str(), HasSubstr("query.b                identity: absent in this call\n"));
  EXPECT_EQ(RunPolicyExplain(path, "nonsense", {}, "", ExplainForm::kText, out_), 2);
}

TEST_F(PolicyCommandsTest, AFailedTestExitsWithOneAndSaysWhy) {
  const std::string path = Write(std::string(kPolicy) + R"(tests:
  - { call: "GET orders /orders/7", expect: { tool: get, effect: read } }
  - { call: "GET orders /orders/7", expect: { tool: create } }
  - { call: "GET orders /orders/7", expect: { effect: write } }
  - { call: "GET orders /x/../orders/7", expect: { effect: read } }
  - { call: "GET orders /x/../orders/7", expect: { refused: ambiguous-path } }
  - { call: "POST orders /notes", body: { a: 1 }, expect: { key: [ args, intent ] } }
  - { call: "POST orders /notes", headers: { Idempotency-Key: k }, expect: { key: intent } }
  - { call: "POST orders /none", expect: { tool: unlisted } }
  - { call: "POST orders /none", expect: { refused: denied } }
)");
  EXPECT_EQ(RunPolicyTest(path, out_), 1);
  const std::string out = out_.str();
  EXPECT_THAT(out, HasSubstr("line 14: GET orders /orders/7: expected tool: create, got get"));
  EXPECT_THAT(out, HasSubstr("line 15: GET orders /orders/7: expected effect: write, got read"));
  EXPECT_THAT(out,
              HasSubstr("line 16: GET orders /x/../orders/7: expected effect: read, got none"));
  EXPECT_THAT(out, HasSubstr("expected intent in the key, which is made of: caller, args"));
  EXPECT_THAT(out, HasSubstr("expected refused: denied, got no refusal"));
  EXPECT_THAT(out, HasSubstr("9 tests, 5 failed"));
}

}  // namespace
}  // namespace recourse::explain_test
