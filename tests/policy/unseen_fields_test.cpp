// Fields that no tool's call ever has, where the policy names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::unseen_fields_test {
namespace {

using ::testing::HasSubstr;

std::string Load(const std::string& yaml) { return ProblemsOf(LoadPolicyText("p.yaml", yaml)); }

// A write tool that has `words` besides, in line 5.
std::string WithTool(const std::string& words) {
  return "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
         "tools:\n  t: { match: POST b /t, effect: write, undo: none, reason: r,\n    " +
         words + " }\n";
}

const std::vector<std::string> kUnseen{"Host",
                                       "connection",
                                       "Keep-Alive",
                                       "Proxy-Connection",
                                       "Proxy-Authenticate",
                                       "Proxy-Authorization",
                                       "TE",
                                       "Trailer",
                                       "Transfer-Encoding",
                                       "Upgrade",
                                       "HTTP2-Settings",
                                       "Content-Length",
                                       "Expect",
                                       "Recourse-Outcome",
                                       "Idempotent-Replayed",
                                       "X-HTTP-Method-Override"};

TEST(UnseenFieldsTest, NoWordMayReadWhatNoCallHas) {
  for (const std::string& name : kUnseen) {
    const std::string words[] = {
        "identity: [ body#/a, header." + name + " ]",
        "identity: [ body#/a ], scope: 'header:" + name + "'",
        "identity: all, deny: 'header." + name + " == \"x\"'",
        "identity: all, approval: { by: [ a ], when: 'header." + name + "' }",
        "identity: all, approval: { by: [ a ], summary: 'of {header." + name + "}' }",
        "identity: all, settle: { request: 'GET /t?a={header." + name +
            "}', happened: answer.body#/id }",
        "identity: all, external_ref: header." + name,
    };
    for (const std::string& word : words) {
      const std::string told = Load(WithTool(word));
      EXPECT_THAT(told, ::testing::ContainsRegex("p.yaml:5:[0-9]+: error: tools.t")) << word;
      EXPECT_THAT(told, HasSubstr(name + " is ")) << word;
    }
    for (const std::string& line : {"principal: [ X-Acme, " + name + " ]",
                                    "flow_rules: { parent: [ 'header:" + name + "' ] }",
                                    "flow_rules: { without_trace: 'header:" + name + "' }"}) {
      const std::string told = Load("version: 1\n" + line + "\n");
      EXPECT_THAT(told, ::testing::ContainsRegex("p.yaml:2:[0-9]+: error: ")) << line;
      EXPECT_THAT(told, HasSubstr(name + " is ")) << line;
    }
  }
}

TEST(UnseenFieldsTest, WhyAndWhatToSayInstead) {
  const auto of = [](const std::string& name) {
    return Load(WithTool("identity: [ header." + name + " ]"));
  };
  EXPECT_THAT(of("Host"), HasSubstr("p.yaml:5:17: error: tools.t.identity[0]: header.Host is "
                                    "taken out before a tool gets the call: it names the server, "
                                    "as `match` does; name a field of the agent's own"));
  EXPECT_THAT(of("Keep-Alive"), HasSubstr("it is about one connection"));
  EXPECT_THAT(of("Recourse-Event"), HasSubstr("Recourse-Session"));
  EXPECT_THAT(of("X-Original-Url"), HasSubstr("is refused with its call"));
}

TEST(UnseenFieldsTest, WhatAnAgentSaysToUsAndOfAProxyMayBeRead) {
  for (const char* const name :
       {"X-Forwarded-User", "x-forwarded-for", "X-Real-IP", "Forwarded", "Recourse-Session", "Via",
        "Recourse-Intent", "Cookie", "Date", "Accept", "Content-Type", "Te-X", "Hosts"}) {
    EXPECT_TRUE(LoadPolicyText("p.yaml", WithTool("identity: [ header." + std::string(name) +
                                                  " ], scope: 'header:" + name + "'"))
                    .ok())
        << name;
  }
  EXPECT_TRUE(LoadPolicyText("p.yaml", "version: 1\nprincipal: [ X-Forwarded-User, -Te ]\n").ok());
}

// It is not passed on with the call, so it is not passed on by another way either.
TEST(UnseenFieldsTest, AnotherRequestMayNotCarryWhatTheCallMayNot) {
  for (const char* const word :
       {"settle: { request: 'GET /t?a={header.X-Forwarded-User}', happened: answer.body#/id }",
        "external_ref: header.X-Forwarded-User"}) {
    EXPECT_THAT(Load(WithTool("identity: all, " + std::string(word))),
                HasSubstr("header.X-Forwarded-User is not passed on to the backend"))
        << word;
  }
  EXPECT_THAT(Load("version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n"
                   "  t: { match: POST b /t, effect: write, identity: all, settle: none,\n"
                   "    undo: { request: 'POST /u', headers: { A: '{header.Forwarded}' } } }\n"),
              HasSubstr("p.yaml:5:11: error: tools.t.undo: header.Forwarded is not passed on"));
}

}  // namespace
}  // namespace recourse::unseen_fields_test
