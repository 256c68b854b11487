// Flows, what holds for all of them, and the words of `undo`: good next to bad.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "policy/explain/explain.h"
#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"
#include "tests/support/temp_directory.h"

namespace recourse::flow_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Eight lines, so that what follows begins on the ninth.
constexpr const char* kTools =
    "version: 1\n"
    "backends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
    "tools:\n"
    "  one: { match: POST b /one, effect: write, agent_key: yields, identity: body#/n,"
    " undo: { request: \"DELETE /one/{external_ref}\" } }\n"
    "  two: { match: POST b /two, effect: write, agent_key: yields, identity: body#/n,"
    " undo: { request: \"DELETE /two/{external_ref}\" }, pivot: true }\n"
    "  mail: { match: POST b /mail, effect: write, agent_key: yields, identity: body#/n,"
    " undo: none, approval: { by: a, expires: 30s } }\n"
    "  stop: { match: POST b /stop, effect: write, agent_key: yields, identity: body#/n,"
    " undo: none, reason: it is itself an undo }\n"
    "  look: { match: GET b /look, effect: read }\n";

std::string Problems(const std::string& words) {
  return ProblemsOf(LoadPolicyText("p.yaml", kTools + words));
}

struct Row {
  std::string words;
  std::string problem;  // empty: none at all
};
void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (row.problem.empty()) {
      EXPECT_THAT(Problems(row.words), IsEmpty()) << row.words;
    } else {
      EXPECT_THAT(Problems(row.words), HasSubstr(row.problem)) << row.words;
    }
  }
}

TEST(FlowWordsTest, WhatNothingTakesBackAsksFirstWhereTheFlowSaysSo) {
  const std::string asks = ", irreversible_first_asks: true } }\n";
  ExpectRows({
      {"flows: { f: { tools: [ one, mail ]" + asks, ""},
      {"flows: { f: { tools: [ one, stop ], canceled_by: stop" + asks, ""},
      {"flows: { f: { tools: [ one, stop ]" + asks,
       "error: tools.stop.approval: flow f says irreversible_first_asks, and this tool is "
       "irreversible: say who is asked"},
      {"  sms: { match: POST b /sms, effect: write, identity: body#/n, undo: none, approval: { by: "
       "a, when: body#/n > 3 } }\nflows: { f: { tools: [ sms ]" +
           asks,
       "let it ask about every call, without `when`"},
      {"  put: { match: \"PATCH b /p/{id}\", effect: write, before: { request: \"GET "
       "/p/{path.id}\", "
       "keep: body#/n, missing: go_on }, undo: { request: \"PATCH /p/{path.id}\", json: { n: "
       "\"{before.body#/n}\" } } }\nflows: { f: { tools: [ put ]" +
           asks,
       "irreversible where before.missing lets it go on: say who is asked"},
      {"flows: { f: { tools: [ one ], irreversible_first_asks: 1 } }\n",
       "flows.f.irreversible_first_asks"},
  });
}

TEST(FlowWordsTest, AFlowSaysHowItEndsAndIsCanceled) {
  ExpectRows({
      {"flows: { f: { tools: [ one, stop ], canceled_by: stop } }\n", ""},
      {"flows: { f: { tools: [ one, stop ], ends_with: one, canceled_by: stop, deadline: 1m } }\n",
       ""},
      {"flows: { f: { tools: [ one ], canceled_by: stop } }\n",
       "p.yaml:9:44: error: flows.f.canceled_by: a flow is canceled by one of its own tools"},
      {"flows: { f: { tools: [ one ], canceled_by: stopp } }\n", "did you mean 'stop'"},
      {"flows: { f: { tools: [ one ], ends_with: one, canceled_by: one, deadline: 1m } }\n",
       "error: flows.f.canceled_by: is the tool of `ends_with`"},
      {"flows: { f: { tools: [ one, two ], undo_before_pivot: true } }\n", ""},
      {"flows: { f: { tools: [ one ], undo_before_pivot: true } }\n",
       "error: flows.f.undo_before_pivot: has no meaning: none"},
      {"flows: { f: { tools: [ one ], continue_on_stuck: true } }\n", ""},
      {"flows: { f: { tools: [ one ], continue_on_stuck: yes } }\n", "flows.f.continue_on_stuck"},
      {"flows: { f: { tools: [ look ] } }\n", "a flow is made of writes"},
  });
}

TEST(FlowWordsTest, AQuestionThatItsBreakingFlowTakesBackIsWarnedAbout) {
  ExpectRows({
      {"flows: { f: { tools: [ mail ], deadline: 10s } }\n",
       "warning: tools.mail.approval.expires: its flow f has a deadline before"},
      {"flows: { f: { tools: [ mail ], deadline: 10s, on_deadline: keep } }\n", ""},
      {"flows: { f: { tools: [ mail ], deadline: 1m } }\n", ""},
  });
}

TEST(FlowWordsTest, AToolHasOneFlowAndTheErrorNamesBothPlaces) {
  ExpectRows({{"flows:\n  f: { tools: [ one ] }\n  g: { tools: [ two, one ] }\n",
               "p.yaml:11:22: error: flows.g.tools[1]: tool one is named in flow f too "
               "(p.yaml:10:17)"},
              {"flows:\n  f: { tools: [ one ] }\n  g: { tools: [ two ] }\n", ""},
              {"flows: { f: { tools: [ one, one ] } }\n", "this tool is named twice"}});
}

TEST(FlowWordsTest, WhatWillBeParkedOrLeftOpenIsWarnedAbout) {
  ExpectRows({
      {"flows: { f: { tools: [ one, mail ], deadline: 1m, on_deadline: undo } }\n",
       "p.yaml:9:51: warning: flows.f.on_deadline: tool mail has neither an undo nor a reason"},
      {"flows: { f: { tools: [ one, mail ], deadline: 1m, on_deadline: ask } }\n", ""},
      {"flows: { f: { tools: [ one, stop ], deadline: 1m, on_deadline: undo } }\n", ""},
      {"flows: { f: { tools: [ one ], ends_with: one } }\n",
       "p.yaml:9:31: warning: flows.f.ends_with: is given without `deadline`"},
      {"flows: { f: { tools: [ one ], ends_with: one, deadline: 1m } }\n", ""},
  });
}

TEST(FlowWordsTest, FlowRulesAreChecked) {
  ExpectRows({
      {"flow_rules: { parent: [ header:X-Parent-Trace, baggage:flow, body#/run, session ] }\n", ""},
      {"flow_rules: { parent: session }\n", ""},
      {"flow_rules: { parent: [ trace ] }\n",
       "p.yaml:9:25: error: flow_rules.parent[0]: accepted: session"},
      {"flow_rules: { parent: [ caller ] }\n", "flow_rules.parent[0]: accepted"},
      {"flow_rules: { parent: [ global ] }\n", "flow_rules.parent[0]: accepted"},
      {"flow_rules: { parent: [ \"header:X Y\" ] }\n", "flow_rules.parent[0]: accepted"},
      {"flow_rules: { parent: [ header:Authorization ] }\n", "carries credentials"},
      {"flow_rules: { without_trace: none }\n", ""},
      {"flow_rules: { without_trace: session }\n", ""},
      {"flow_rules: { without_trace: header:X-Run }\n", ""},
      {"flow_rules: { without_trace: pod }\n", ""},
      {"flow_rules: { without_trace: caller }\n",
       "p.yaml:9:15: error: flow_rules.without_trace: accepted: none, session, \"header:Name\", "
       "pod"},
      {"flow_rules: { without_trace: \"body#/run\" }\n", "flow_rules.without_trace: accepted"},
      {"flow_rules: { without_trace: \"header:X Y\" }\n", "flow_rules.without_trace: accepted"},
      {"flow_rules: { without_trace: header:Cookie }\n", "carries credentials"},
      {"flow_rules: { agents_may: [ close, cancel ] }\n", ""},
      {"flow_rules: { agents_may: cancel }\n", ""},
      {"flow_rules: { agents_may: [ undo ] }\n",
       "error: flow_rules.agents_may[0]: accepted: close, cancel"},
      {"flow_rules: { undos_per_second: 1000 }\n", ""},
      {"flow_rules: { undos_per_second: 1001 }\n",
       "flow_rules.undos_per_second: accepted: a whole number from 1 to 1000"},
      {"flow_rules: { undos_per_second: 0 }\n", "flow_rules.undos_per_second: accepted"},
      {"flow_rules: { undo_rate: 1 }\n", "flow_rules.undo_rate: unknown key"},
      {"flow_rules: [ close ]\n", "flow_rules: a map is accepted here"},
  });
}

TEST(FlowWordsTest, AWebhookHasAnAddressAndASecretFile) {
  ExpectRows({
      {"flow_rules: { webhook: { url: \"https://pager.example/x\", secret_file: /run/s } }\n", ""},
      {"flow_rules: { webhook: { url: \"http://127.0.0.1:9000\", secret_file: /run/s } }\n", ""},
      {"flow_rules: { webhook: { url: \"https://p/x\", format: slack } }\n", ""},
      {"flow_rules: { webhook: { url: \"https://p/x\", format: slack, ca_file: /ca } }\n", ""},
      {"flow_rules: { webhook: { url: \"http://p/x\", secret_file: /s, ca_file: /ca } }\n",
       "flow_rules.webhook.ca_file: the url is http"},
      {"flow_rules: { webhook: { url: \"https://p/x\", secret_file: /s, format: json } }\n", ""},
      {"flow_rules: { webhook: { url: \"https://p/x\", secret_file: /s, format: cloudevents } }\n",
       ""},
      {"flow_rules: { webhook: { url: \"https://p/x\", format: cloudevents } }\n",
       "flow_rules.webhook.secret_file: is missing"},
      {"flow_rules: { webhook: { url: \"https://p/x\", secret_file: /s, format: slack } }\n",
       "flow_rules.webhook.secret_file: leave it out"},
      {"flow_rules: { webhook: { url: \"https://p/x\", secret_file: /s, format: xml } }\n",
       "flow_rules.webhook.format: "},
      {"flow_rules: { webhook: { url: \"https://pager.example/x\" } }\n",
       "flow_rules.webhook.secret_file: is missing"},
      {"flow_rules: { webhook: { secret_file: /run/s } }\n", "flow_rules.webhook.url: is missing"},
      {"flow_rules: { webhook: { url: \"ftp://pager/x\", secret_file: /run/s } }\n",
       "flow_rules.webhook.url: accepted: http://host"},
      {"flow_rules: { webhook: { url: \"https://u:p@pager/x\", secret_file: /run/s } }\n",
       "carries no user or password"},
  });
}

TEST(FlowWordsTest, TheValuesArrive) {
  const LoadedPolicy loaded = LoadPolicyText(
      "p.yaml", std::string(kTools) +
                    "flows: { f: { tools: [ one, two, stop ], canceled_by: stop, "
                    "undo_before_pivot: true, continue_on_stuck: true } }\n"
                    "flow_rules: { parent: [ header:X-Run, body#/run ], agents_may: [ cancel ], "
                    "undos_per_second: 7, webhook: { url: \"https://p/x\", secret_file: /s, "
                    "ca_file: /ca } }\n");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const Flow& flow = loaded.policy->flows.at(0);
  EXPECT_EQ(loaded.policy->tools[*flow.canceled_by].name, "stop");
  EXPECT_TRUE(flow.undo_before_pivot);
  EXPECT_TRUE(flow.continue_on_stuck);
  const FlowRules& rules = loaded.policy->flow_rules;
  ASSERT_EQ(rules.parent.size(), 2U);
  EXPECT_EQ(rules.parent[0].name, "X-Run");
  EXPECT_EQ(rules.parent[1].name, "/run");
  EXPECT_TRUE(rules.agent_may_cancel);
  EXPECT_FALSE(rules.agent_may_close);
  EXPECT_EQ(rules.undos_per_second, 7);
  ASSERT_TRUE(rules.webhook);
  EXPECT_EQ(rules.webhook->secret_file, "/s");
  EXPECT_EQ(rules.webhook->backend.host, "p");
  EXPECT_EQ(rules.webhook->backend.tls_ca_file, "/ca");
}

// One tool with those words of `undo`; line 5 of the file is the undo.
std::string WithUndo(const std::string& words, const std::string& more = "") {
  return "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
         "tools:\n  t: { match: POST b /t, effect: write, agent_key: yields,"
         " identity: body#/n, " +
         more + "\n    undo: { request: \"POST /u/{external_ref}\", " + words + " } }\n";
}

void ExpectUndo(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const std::string said = ProblemsOf(LoadPolicyText("p.yaml", WithUndo(row.words)));
    if (row.problem.empty()) {
      EXPECT_THAT(said, IsEmpty()) << row.words;
    } else {
      EXPECT_THAT(said, HasSubstr(row.problem)) << row.words;
    }
  }
}

TEST(FlowWordsTest, AnUndoSaysWithWhoseCredentialsItIsSent) {
  ExpectUndo({
      {"credentials: { Authorization: { file: /run/t, prefix: \"Bearer \" } }", ""},
      {"credentials: { X-Any: { file: /run/t } }", ""},
      {"credentials: from_call", ""},
      {"credentials: [ Authorization, Cookie, X-Api-Key ]", ""},
      {"credentials: from_file", "p.yaml:5:61: error: tools.t.undo.credentials: accepted: fields"},
      {"credentials: {}", "tools.t.undo.credentials: accepted: fields"},
      {"credentials: [ X-Any ]", "tools.t.undo.credentials[0]: accepted: Authorization, Cookie"},
      {"credentials: [ Proxy-Authorization ]", "tools.t.undo.credentials[0]: accepted"},
      {"credentials: [ Cookie, cookie ]", "cookie is named twice"},
      {"credentials: { Authorization: { prefix: x } }", "Authorization.file: is missing"},
      {"credentials: { Authorization: { file: /t, value: x } }",
       "Authorization.value: unknown key"},
      {"credentials: { Authorization: secret }", "a map is accepted here"},
      {"credentials: { Host: { file: /t } }", "not about framing or routing"},
      {"credentials: { \"X Y\": { file: /t } }", "not about framing or routing"},
      {"credentials: { A: { file: /t, prefix: \"x\\ny\" } }", "no line breaks"},
      {"credentials: { Idempotency-Key: { file: /t } }", "is the backend's key_header"},
      {"headers: { Authorization: \"{header.Authorization}\" }, credentials: from_call",
       "Authorization is given twice"},
  });
  EXPECT_THAT(ProblemsOf(LoadPolicyText(
                  "p.yaml", WithUndo("credentials: from_call", "redact: header.Authorization,"))),
              HasSubstr("`redact` says that header.Authorization never is"));
}

std::string WithApproval(const std::string& words) {
  return "version: 1\nbackends: { b: { url: \"http://b.test\", key_header: Idempotency-Key } }\n"
         "tools:\n"
         "  t: { match: POST b /t, effect: write, agent_key: yields,"
         " identity: body#/n, undo: none,\n"
         "       approval: { by: sre, " +
         words + " } }\n";
}

TEST(FlowWordsTest, AnApprovalSaysWithWhichMountedSecretsItsCallIsSent) {
  for (const Row& row : std::vector<Row>{
           {"credentials: { Authorization: { file: /run/t, prefix: \"Bearer \" } }", ""},
           {"credentials: { X-Any: { file: /run/t }, Authorization: { file: /run/u } }", ""},
           {"credentials: from_call",
            "p.yaml:5:42: error: tools.t.approval.credentials: accepted: fields with the files"},
           {"credentials: [ Authorization ]", "sent with the agent's own credentials, kept sealed"},
           {"credentials: {}", "tools.t.approval.credentials: accepted: fields"},
           {"credentials: { Authorization: { prefix: x } }", "Authorization.file: is missing"},
           {"credentials: { Authorization: { file: /t, value: x } }",
            "Authorization.value: unknown key"},
           {"credentials: { Host: { file: /t } }", "not about framing or routing"},
           {"credentials: { A: { file: /t }, a: { file: /t } }", "a is given twice"},
           {"credentials: { idempotency-key: { file: /t } }", "is the backend's key_header"}}) {
    const std::string said = ProblemsOf(LoadPolicyText("p.yaml", WithApproval(row.words)));
    if (row.problem.empty()) {
      EXPECT_THAT(said, IsEmpty()) << row.words;
    } else {
      EXPECT_THAT(said, HasSubstr(row.problem)) << row.words;
    }
  }
}

TEST(FlowWordsTest, TheSecretFileOfAnApprovalIsTriedWhereFilesAreChecked) {
  const TempDirectory directory;
  const std::string secret = directory.path() + "/approval.secret";
  const std::string policy = directory.path() + "/approval-policy.yaml";
  std::ofstream(policy) << WithApproval("credentials: { Authorization: { file: " + secret + " } }");
  std::remove(secret.c_str());
  EXPECT_THAT(ProblemsOf(LoadPolicy(policy, TlsFiles::kCheck)),
              HasSubstr("approval-policy.yaml:5:61: error: "
                        "tools.t.approval.credentials.Authorization.file: " +
                        secret));
  std::ofstream(secret) << "token\n";
  EXPECT_THAT(ProblemsOf(LoadPolicy(policy, TlsFiles::kCheck)), IsEmpty());
  std::ostringstream out;
  EXPECT_EQ(RunPolicyExplain(policy, "POST b /t", {}, "{}", ExplainForm::kText, out), 0);
  EXPECT_THAT(out.str(), HasSubstr("approval     by sre\n"));
  EXPECT_THAT(out.str(),
              HasSubstr("credentials: Authorization from " + secret + ", read when it is sent\n"));
}

TEST(FlowWordsTest, AnUndoHasAttemptsAndAWindow) {
  ExpectUndo({
      {"attempts: 100", ""},
      {"attempts: 101",
       "p.yaml:5:58: error: tools.t.undo.attempts: accepted: a whole number from "
       "1 to 100"},
      {"attempts: 0", "tools.t.undo.attempts: accepted"},
      {"window: 7d", ""},
      {"window: 8d", "tools.t.undo.window: is longer than ledger.retention"},
      {"window: 0s", "tools.t.undo.window: the duration must be more than zero"},
  });
  const std::string longer = "ledger: { retention: 30d }\n";
  EXPECT_THAT(ProblemsOf(LoadPolicyText("p.yaml", WithUndo("window: 30d") + longer)), IsEmpty());
}

TEST(FlowWordsTest, AnUndoSaysWhatAnswerMeansDone) {
  ExpectUndo({
      {"done_when: [ answer.body#/ok == true, answer.header.X-Gone ]", ""},
      {"done_when: body#/ok == true", "tools.t.undo.done_when: this looks at the answer"},
      {"done_when: answer.body#/n ~ 1", "tools.t.undo.done_when"},
  });
}

TEST(FlowWordsTest, AnUndoHasOneBody) {
  ExpectUndo({
      {"form: { charge: \"{external_ref}\", \"metadata[a]\": x }", ""},
      {"form: { charge: \"{external_ref}\" }, json: { a: 1 }", "one body: json or form"},
      {"form: [ a ]", "tools.t.undo.form: a map of field names"},
      {"form: { \"{key}\": x }", "a field name is fixed text"},
      {"form: { a: \"{nothing}\" }",
       "tools.t.undo.form.a: {nothing} is no place; accepted: body#/pointer"},
  });
}

TEST(FlowWordsTest, ASecretFileIsTriedWhereFilesAreChecked) {
  const TempDirectory directory;
  const std::string secret = directory.path() + "/undo.secret";
  const std::string policy = directory.path() + "/undo-policy.yaml";
  const auto load = [&] {
    std::ofstream(policy) << WithUndo("credentials: { Authorization: { file: " + secret + " } }");
    return ProblemsOf(LoadPolicy(policy, TlsFiles::kCheck));
  };
  std::remove(secret.c_str());
  EXPECT_THAT(load(), HasSubstr("undo.credentials.Authorization.file: " + secret));
  EXPECT_THAT(load(), HasSubstr("cannot be read"));
  std::ofstream(secret) << "\n";
  EXPECT_THAT(load(), HasSubstr("is empty; put the secret in its first line"));
  std::ofstream(secret) << "a\x01" << "b\n";
  EXPECT_THAT(load(), HasSubstr("control characters"));
  std::ofstream(secret) << std::string(4097, 'x');
  EXPECT_THAT(load(), HasSubstr("larger than 4 KiB"));
  std::ofstream(secret) << "token\nsecond line\n";
  EXPECT_THAT(load(), IsEmpty());
  EXPECT_THAT(ProblemsOf(LoadPolicyText("p.yaml", WithUndo("attempts: 2"))), IsEmpty());
}

TEST(FlowWordsTest, AProbeWithoutTheUndosCredentialsIsWarnedAbout) {
  const std::string settle = "settle: { request: \"GET /t?n={body#/n}\", happened: answer.body#/id";
  EXPECT_THAT(
      ProblemsOf(LoadPolicyText("p.yaml", WithUndo("credentials: from_call", settle + " },"))),
      HasSubstr("warning: tools.t.settle: is sent without Authorization"));
  EXPECT_THAT(
      ProblemsOf(LoadPolicyText(
          "p.yaml",
          WithUndo("credentials: from_call",
                   settle + ", headers: { Authorization: \"{header.Authorization}\" } },"))),
      IsEmpty());
}

TEST(FlowWordsTest, ExplainShowsTheFlowAndTheUndo) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/explain-flow.yaml";
  std::ofstream(path)
      << WithUndo(
             "credentials: { Authorization: { file: /run/t } }, done: [ 2xx, 404 ], "
             "attempts: 3, window: 2d, repeatable: true",
             "breaks_flow: on_failure, not_executed: [ 409 ], ")
      << "flows: { f: { tools: t, ends_with: t, deadline: 90s, on_deadline: undo } "
         "}\n";
  std::ostringstream out;
  EXPECT_EQ(RunPolicyExplain(path, "POST b /t", {}, "{}", ExplainForm::kText, out), 0);
  for (const char* part :
       {"flow         f; complete when t succeeds; unfinished after 90s: undone\n",
        "breaks_flow  on_failure: its failure has the flow undone; 409 (not_executed) waits for a "
        "repeat\n",
        "undo         POST /u/{external_ref}\n",
        "done: 200-299, 404; while its outcome is unknown it may be repeated; at most 3 attempts\n",
        "credentials: Authorization from /run/t, read when it is sent\n",
        "of a finished flow within 2d\n"}) {
    EXPECT_THAT(out.str(), HasSubstr(part));
  }
  EXPECT_THAT(out.str(), Not(HasSubstr("pivot")));
}

}  // namespace
}  // namespace recourse::flow_words_test
