// `settled_by` of tools and `credentials` of backends: what is accepted, and what is said of the
// rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::settled_words_test {
namespace {

using ::testing::HasSubstr;

LoadedPolicy Load(const std::string& backend, const std::string& tool) {
  return LoadPolicyText("p.yaml",
                        "version: 1\nbackends: { b: { url: \"https://b\"" + backend +
                            " } }\ntools:\n  t: { match: \"POST b /t/{id}\", effect: write, "
                            "identity: body#/a, undo: none, reason: r" +
                            tool + " }\n");
}

TEST(SettledByWordsTest, AReadOfCallAndAnswerWithItsEnd) {
  const auto loaded = Load("",
                           ", settled_by: { request: \"GET /jobs/{answer.body#/id}?of={path.id}\""
                           ", until: 'answer.body#/status == \"done\"', deadline: 5m }");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const SettledByRule& rule = *loaded.policy->tools[0].settled_by;
  EXPECT_EQ(rule.request.source, "GET /jobs/{answer.body#/id}?of={path.id}");
  EXPECT_EQ(rule.until.size(), 1U);
  EXPECT_EQ(rule.deadline, Millis(300'000));
}

TEST(SettledByWordsTest, WhatCannotBeIsAnErrorWithItsPlace) {
  const std::pair<std::string, std::string_view> cases[] = {
      {", settled_by: { request: \"GET /j\" }", "conditions on its answer"},
      {", settled_by: { until: answer.body#/done }", "a read that shows"},
      {", settled_by: { request: \"POST /j\", until: answer.body#/done }", "safe: true"},
      {", settled_by: { request: \"GET /j/{path.x}\", until: answer.body#/done }",
       "has no capture {x}"},
      {", settled_by: { request: \"GET /j\", until: body#/done }", "answer.body#/pointer"},
      {", settled_by: { request: \"GET /j\", until: answer.body#/d, for: 3s }", "for"},
      {", settled_by: { at: answer.status, until: answer.body#/d }",
       "where the answer has the link to ask at"},
      {", settled_by: { at: body#/a, until: answer.body#/d }", "this looks at the answer"},
      {", settled_by: { at: answer.header.Location }", "conditions on its answer"},
      {", settled_by: { at: answer.header.Location, request: \"GET /j\", until: answer.body#/d }",
       "request"},
  };
  for (const auto& [tool, problem] : cases) {
    const auto loaded = Load("", tool);
    EXPECT_FALSE(loaded.ok()) << tool;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(problem)) << tool;
  }
}

TEST(SettledByWordsTest, MayAskWhereTheAnswerLeads) {
  const auto loaded = Load(
      "", ", settled_by: { at: answer.header.Location, until: 'answer.body#/status == \"done\"' }");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const SettledByRule& rule = *loaded.policy->tools[0].settled_by;
  ASSERT_TRUE(rule.at);
  EXPECT_EQ(rule.at->name, "Location");
  EXPECT_EQ(rule.root, "https://b");
  EXPECT_EQ(rule.request.source, "GET where answer.header.Location leads");
}

TEST(SettledByWordsTest, StandsInAnUndoToo) {
  const auto load = [](const std::string& request) {
    return LoadPolicyText(
        "p.yaml",
        "version: 1\nbackends: { b: { url: \"https://b\" } }\ntools:\n  t: { match: "
        "\"POST b /t/{id}\", effect: write, identity: body#/a, undo: { request: \"DELETE "
        "/t/{path.id}\", settled_by: { request: \"GET " +
            request + "\", until: answer.status == 404, deadline: 5m } } }\n");
  };
  const auto loaded = load("/t/{path.id}?of={external_ref}&job={answer.body#/job}");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  EXPECT_EQ(loaded.policy->tools[0].undo->settled_by->deadline, Millis(300'000));
  const auto same = LoadPolicyText(
      "p.yaml",
      "version: 1\nbackends: { b: { url: \"https://b\" } }\ntools:\n  t: { match: \"POST b "
      "/t/{id}\", effect: write, identity: body#/a, undo: { request: \"DELETE "
      "/t/{path.id}?now=1\", "
      "settled_by: { request: GET, headers: { Accept: a/b }, until: answer.status == 404 } } }\n");
  ASSERT_TRUE(same.ok()) << ProblemsOf(same);
  EXPECT_TRUE(same.policy->tools[0].undo->settled_by->at_its_path);
  EXPECT_THAT(ProblemsOf(Load("", ", settled_by: { request: GET, until: answer.status == 404 }")),
              HasSubstr("settled_by.request"))
      << "of a call it has a path";
  const auto unknown = load("/t/{body#/a}");
  EXPECT_FALSE(unknown.ok());
  EXPECT_THAT(ProblemsOf(unknown), HasSubstr("undo.settled_by: {body#/a} is not known by then"));
}

TEST(SettledByWordsTest, OfAnMcpServerItCallsARead) {
  const auto load = [](const std::string& called) {
    return LoadPolicyText(
        "p.yaml",
        "version: 1\nbackends: { m: { url: \"https://m/mcp\", protocol: mcp } }\ntools:\n  get: { "
        "match: tools/call m get_job, effect: read }\n  t: { match: tools/call m import, effect: "
        "write, identity: body#/a, undo: none, reason: r, settled_by: { call: " +
            called + ", arguments: { id: \"{answer.body#/job}\" }, until: answer.body#/done } }\n");
  };
  const auto loaded = load("get_job");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  EXPECT_EQ(loaded.policy->tools[1].settled_by->request.calls, "get_job");
  EXPECT_THAT(ProblemsOf(load("import")), HasSubstr("call a read"));
  EXPECT_THAT(ProblemsOf(load("other")), HasSubstr("list it with `effect: read`"));
}

constexpr const char* kToken =
    ", credentials: { Authorization: { prefix: \"Bearer \", token: { url: \"https://login/token\", "
    "client_id: agent, secret_file: /nowhere, scope: all } } }";

TEST(BackendCredentialWordsTest, AreFilesOrTokens) {
  const auto loaded = Load(kToken, "");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const SecretHeader& secret = loaded.policy->backends[0].secrets.at(0);
  EXPECT_EQ(secret.name, "Authorization");
  ASSERT_TRUE(secret.token != nullptr);
  EXPECT_EQ(secret.token->backend.base_path, "/token");
  const auto file = Load(", credentials: { X-Api-Key: { file: /nowhere } }", "");
  ASSERT_TRUE(file.ok()) << ProblemsOf(file);
  EXPECT_EQ(file.policy->backends[0].secrets.at(0).file, "/nowhere");
}

TEST(BackendCredentialWordsTest, WhatCannotBeIsAnErrorWithItsPlace) {
  const std::pair<std::string, std::string_view> cases[] = {
      {", credentials: { Host: { file: /f } }", "framing or routing"},
      {", credentials: { A: { prefix: x } }", "mounted file"},
      {", credentials: { A: { file: /f }, a: { file: /g } }", "given twice"},
      {", credentials: from_call", "without it agents' own"},
      {", credentials: { A: { file: /f, token: { url: \"https://l\", client_id: c, secret_file: /s "
       "} } }",
       "either in a file or a token"},
      {", credentials: { A: { token: { url: \"http://l\", client_id: c, secret_file: /s } } }",
       "https url only"},
      {", key_header: X-Key, credentials: { X-Key: { file: /f } }", "one of the `credentials`"},
  };
  for (const auto& [backend, problem] : cases) {
    const auto loaded = Load(backend, "");
    EXPECT_FALSE(loaded.ok()) << backend;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(problem)) << backend;
  }
  const auto keyed = Load(", key_header: X-Key", ", credentials: { X-Key: { file: /f } }");
  EXPECT_THAT(ProblemsOf(keyed), HasSubstr("one of the `credentials` of this tool"));
  const auto seen = LoadPolicyText(
      "p.yaml",
      "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools: { t: { match: GET b /t, "
      "effect: read, credentials: { A: { file: /f } } } }\n");
  EXPECT_TRUE(seen.ok()) << ProblemsOf(seen);
  EXPECT_THAT(ProblemsOf(seen), HasSubstr("tools.t.credentials: the url is http"));
  const auto probed = Load(", credentials: { Authorization: { file: /f } }",
                           ", settle: { request: \"GET /t/{path.id}\", happened: answer.body#/id, "
                           "headers: { Authorization: \"{header.Authorization}\" } }");
  EXPECT_THAT(ProblemsOf(probed), HasSubstr("one of the `credentials` of backend b"));
}

}  // namespace
}  // namespace recourse::settled_words_test
