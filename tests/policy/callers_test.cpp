#include "policy/model/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/admin/issuer.h"
#include "tests/policy/policy_builder.h"

namespace recourse::callers_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNow = 1'700'000'000;
const WallTime kWall{std::chrono::seconds(kNow)};

Caller Read(const CallersRule& rule, const Headers& headers, const CallerIdentity& identity) {
  const auto values = [&](std::string_view name) {
    std::vector<std::string_view> found;
    for (const auto& [field, value] : headers) {
      if (EqualsIgnoreCase(field, name)) found.push_back(value);
    }
    return found;
  };
  return ReadCaller(rule, identity, values, kWall);
}
Caller Read(const CallersRule& rule, const Headers& headers, const std::string& certificate = "") {
  CallerIdentity identity;
  if (!certificate.empty()) identity = {certificate, CallerIdentity::Of::kCertificate};
  return Read(rule, headers, identity);
}

CallersRule ByField() { return {.field = "X-Agent", .jwt = {}}; }

TEST(CallersTest, WithoutWordsTheCertificateSaysItAll) {
  EXPECT_EQ(Read({}, {{"X-Agent", "a"}}).name, "local");
  EXPECT_EQ(Read({}, {}, "cn:pod").name, "cn:pod");
  EXPECT_TRUE(Read({}, {}).earlier.empty());
}

TEST(CallersTest, AFieldNamesTheCallerBesideItsCertificate) {
  const Caller alone = Read(ByField(), {{"x-agent", " planner "}});
  EXPECT_EQ(alone.name, "field:planner");
  ASSERT_EQ(alone.earlier.size(), 1U);
  EXPECT_EQ(alone.earlier[0].name, "local");
  const Caller both = Read(ByField(), {{"X-Agent", "planner"}}, "spiffe://td/pod");
  EXPECT_EQ(both.name, "field:planner;spiffe://td/pod");
  EXPECT_EQ(both.earlier[0].name, "spiffe://td/pod");
}

std::vector<std::string> EarlierOf(const Caller& caller) {
  std::vector<std::string> names;
  for (const Caller::Earlier& one : caller.earlier) names.push_back(one.name);
  return names;
}

// Workloads that share a ledger share no callers but those that somebody vouches for.
TEST(CallersTest, WhoIsOnlyBelievedIsSomebodyOfTheGroup) {
  using Of = CallerIdentity::Of;
  const CallerIdentity group{"shop/checkout/local", Of::kGroup};
  EXPECT_EQ(Read({}, {}, group).name, "shop/checkout/local");
  EXPECT_TRUE(Read({}, {}, group).earlier.empty());
  const Caller believed = Read(ByField(), {{"X-Agent", "planner"}}, group);
  EXPECT_EQ(believed.name, "field:planner;shop/checkout/local");
  EXPECT_EQ(EarlierOf(believed), std::vector<std::string>{"shop/checkout/local"});
  EXPECT_EQ(Read(ByField(), {}, group).name, "unknown:shop/checkout/local");
}

TEST(CallersTest, WhatIsNotThereOnceNamesNobody) {
  for (const Headers& headers :
       {Headers{}, Headers{{"X-Agent", ""}}, Headers{{"X-Agent", " \t"}},
        Headers{{"X-Agent", "a"}, {"x-agent", "a"}}, Headers{{"X-Agent", std::string(257, 'a')}}}) {
    const Caller caller = Read(ByField(), headers, "cn:pod");
    EXPECT_FALSE(caller.problem.empty());
    EXPECT_EQ(caller.name, "unknown:cn:pod");
    EXPECT_TRUE(caller.earlier.empty());
  }
}

TEST(CallersTest, NoValueImitatesAnotherCaller) {
  const std::vector<std::pair<std::string, std::string>> calls{{"local", ""},
                                                               {"cn:pod", ""},
                                                               {"a;cn:pod", ""},
                                                               {"a", "cn:pod"},
                                                               {"a", "cn:pod;x"},
                                                               {"a%3bcn:pod", ""},
                                                               {"a", "cn:field:a"},
                                                               {"a\"", ""},
                                                               {"a\\", ""},
                                                               {"a b", ""},
                                                               {"a%20b", ""},
                                                               {"\xc3\xa4", ""},
                                                               {"\xff", ""},
                                                               {"a;field:a", ""},
                                                               {"a", "cn:a;cn:b"},
                                                               {"jwt:a", ""},
                                                               {"a;cn:a", "cn:b"},
                                                               {"unknown:local", ""},
                                                               {"A", ""}};
  std::map<std::string, std::string> seen{{"local", "nobody"}, {"cn:pod", "the certificate"}};
  for (const auto& [value, certificate] : calls) {
    const Caller caller = Read(ByField(), {{"X-Agent", value}}, certificate);
    EXPECT_EQ(caller.problem, "") << value;
    const auto [other, is_new] = seen.emplace(caller.name, value + " with " + certificate);
    EXPECT_TRUE(is_new) << value << " with " << certificate << " is " << other->second;
    for (const char c : caller.name) EXPECT_TRUE(c >= ' ' && c <= '~' && c != '"' && c != '\\');
  }
}

TEST(CallersTest, NobodyApprovesWhatComesInTheirOwnName) {
  EXPECT_TRUE(IsPartOfCaller("cn:carol", "cn:carol"));
  EXPECT_TRUE(IsPartOfCaller("cn:carol", "jwt:bob;field:x;cn:carol"));
  EXPECT_TRUE(IsPartOfCaller("bob", "jwt:bob;field:x;cn:carol"));
  EXPECT_TRUE(IsPartOfCaller("b b", "jwt:b%20b"));
  EXPECT_TRUE(IsPartOfCaller("x", "jwt:bob;field:x;cn:carol"))
      << "nobody proved it, but it is said";
  EXPECT_TRUE(IsPartOfCaller("Bob@x.test", "jwt:bob@x.test"));
  EXPECT_TRUE(IsPartOfCaller("bob", "jwt:Bob%20"));
  EXPECT_TRUE(IsPartOfCaller("bob ", "field:bob."));
  EXPECT_FALSE(IsPartOfCaller("bob", "jwt:bobby;field:bo"));
  EXPECT_FALSE(IsPartOfCaller("", "jwt:bob"));
  EXPECT_FALSE(IsPartOfCaller("carol", "jwt:bob;cn:carol"));
  EXPECT_FALSE(IsPartOfCaller("cn:carol", "jwt:bob;cn:carol;cn:dora"));
}

class TokenCallersTest : public testing::Test {
 protected:
  void SetUp() override {
    Write(JwksOf({key_.Jwk()}));
    ASSERT_TRUE(rule_.jwt->keys->Read());
  }
  void TearDown() override { std::filesystem::remove(file_); }
  void Write(const std::string& text) { std::ofstream(file_) << text; }
  std::string Token(const std::string& more = "", std::int64_t lives_s = 600) const {
    return "Bearer " + key_.Sign(Claims(more, lives_s));
  }
  static std::string Claims(const std::string& more, std::int64_t lives_s = 600) {
    return R"({"iss":"https://login.example","aud":["tools"],"sub":"alice","agent":"a 7","exp":)" +
           std::to_string(kNow + lives_s) + more + "}";
  }
  std::string NameOf(const Headers& headers, const std::string& certificate = "") const {
    const Caller caller = Read(rule_, headers, certificate);
    return caller.problem.empty() ? caller.name : caller.problem;
  }

  const IssuerKey key_{"e1"};
  const std::string file_ = testing::TempDir() + "jwks-" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
  CallersRule rule_{.field = "",
                    .jwt = CallerToken{.issuer = "https://login.example",
                                       .audience = "tools",
                                       .jwks_file = file_,
                                       .keys = std::make_shared<JwksFile>(file_)}};
};

TEST_F(TokenCallersTest, AVerifiedClaimNamesTheCallerAlsoWhenTheTokenIsRefreshed) {
  EXPECT_EQ(NameOf({{"Authorization", Token()}}), "jwt:alice");
  EXPECT_EQ(NameOf({{"authorization", "bearer  " + Token("", 900).substr(7)}}), "jwt:alice");
  EXPECT_EQ(NameOf({{"Authorization", Token()}}, "cn:pod"), "jwt:alice;cn:pod");
  rule_.jwt->claim = "/agent";
  EXPECT_EQ(NameOf({{"Authorization", Token()}}), "jwt:a%207");
  rule_.jwt->field = "X-Agent-Token";
  EXPECT_EQ(NameOf({{"X-Agent-Token", Token()}}), "jwt:a%207");
  EXPECT_EQ(NameOf({{"X-Agent-Token", Token().substr(7)}}), "jwt:a%207");
  rule_.field = "X-Agent";
  const Caller caller = Read(rule_, {{"X-Agent-Token", Token()}, {"X-Agent", "planner"}}, "cn:pod");
  EXPECT_EQ(caller.name, "jwt:a%207;field:planner;cn:pod");
  EXPECT_EQ(caller.verified_field, "X-Agent-Token");
  ASSERT_EQ(caller.earlier.size(), 3U);
  EXPECT_EQ(caller.earlier[0].name, "cn:pod");
  EXPECT_EQ(caller.earlier[1].name, "jwt:a%207;cn:pod");
  EXPECT_EQ(caller.earlier[2].name, "field:planner;cn:pod");
}

TEST_F(TokenCallersTest, WhatDoesNotHoldNamesNobody) {
  const std::string good = Token();
  const IssuerKey stranger("e1"), unknown("e2");
  const std::string none = ToBase64Url(R"({"alg":"none"})") + "." + ToBase64Url(Claims("")) + ".";
  EXPECT_THAT(NameOf({}), HasSubstr("Authorization is not in it"));
  EXPECT_THAT(NameOf({{"Authorization", good}, {"Authorization", good}}), HasSubstr("once"));
  EXPECT_THAT(NameOf({{"Authorization", "Basic YTpi"}}), HasSubstr("no bearer token"));
  EXPECT_THAT(NameOf({{"Authorization", good.substr(7)}}), HasSubstr("no bearer token"));
  EXPECT_THAT(NameOf({{"Authorization", "Bearer opaque"}}), HasSubstr("three parts"));
  EXPECT_THAT(NameOf({{"Authorization", "Bearer " + none}}), HasSubstr("no signed JWT"));
  EXPECT_THAT(NameOf({{"Authorization", "Bearer " + none + "AAAA"}}), HasSubstr("algorithm"));
  EXPECT_THAT(NameOf({{"Authorization", "Bearer " + stranger.Sign(Claims(""))}}),
              HasSubstr("signature is wrong"));
  EXPECT_THAT(NameOf({{"Authorization", "Bearer " + unknown.Sign(Claims(""))}}),
              HasSubstr("no key that the token names"));
  EXPECT_THAT(NameOf({{"Authorization", Token("", -61)}}), HasSubstr("has expired"));
  rule_.jwt->claim = "exp";
  EXPECT_THAT(NameOf({{"Authorization", good}}), HasSubstr("exp is no text"));
  rule_.jwt->claim = "nobody";
  EXPECT_THAT(NameOf({{"Authorization", good}}), HasSubstr("nobody is no text"));
  rule_.jwt->claim = "sub";
  rule_.jwt->audience = "other";
  EXPECT_THAT(NameOf({{"Authorization", good}}), HasSubstr("another audience"));
  rule_.jwt->audience = "tools";
  rule_.jwt->issuer = "https://other.example";
  EXPECT_THAT(NameOf({{"Authorization", good}}), HasSubstr("another issuer"));
}

TEST_F(TokenCallersTest, KeysStayInUseUntilTheNextOnesHaveBeenRead) {
  const IssuerKey next("e2");
  for (const std::string bad : {"", "{}", "{\"keys\":["}) {
    Write(bad);
    EXPECT_FALSE(rule_.jwt->keys->Read());
    EXPECT_EQ(NameOf({{"Authorization", Token()}}), "jwt:alice");
  }
  std::filesystem::remove(file_);
  EXPECT_FALSE(rule_.jwt->keys->Read());
  EXPECT_EQ(NameOf({{"Authorization", Token()}}), "jwt:alice");
  Write(JwksOf({next.Jwk()}));
  EXPECT_EQ(rule_.jwt->keys->Read(), true);
  EXPECT_EQ(rule_.jwt->keys->Read(), false) << "nothing has changed";
  EXPECT_THAT(NameOf({{"Authorization", Token()}}), HasSubstr("no key"));
  EXPECT_EQ(NameOf({{"Authorization", "Bearer " + next.Sign(Claims(""))}}), "jwt:alice");
}

std::string ProblemOf(const std::string& callers, const std::string& more = "") {
  return ProblemsOf(LoadPolicyText("p.yaml", "version: 1\ncallers: " + callers + "\n" + more));
}

TEST(CallersWordsTest, BadWordsAreToldWithPlaceAndFix) {
  const std::string token = "issuer: i, audience: a, jwks_file: f";
  EXPECT_EQ(ProblemOf("{ field: X-Agent }"), "");
  EXPECT_EQ(ProblemOf("{ jwt: { " + token + " } }"), "");
  EXPECT_EQ(ProblemOf("{ field: X-Agent, jwt: { " + token + ", field: X-T, claim: azp } }"), "");
  EXPECT_THAT(ProblemOf("{}"), HasSubstr("names nothing; accepted: field, jwt, or both"));
  EXPECT_THAT(ProblemOf("{ feild: X-Agent }"), HasSubstr("p.yaml:2:12: error: callers.feild"));
  EXPECT_THAT(ProblemOf("X-Agent"), HasSubstr("p.yaml:2:10: error: callers"));
  for (const std::string name : {"\"a b\"", "Host", "Connection", "traceparent"}) {
    EXPECT_THAT(ProblemOf("{ field: " + name + " }"), HasSubstr("2:12: error: callers.field"))
        << name;
  }
  for (const std::string name : {"Authorization", "Cookie", "X-Api-Key", "X-Session-Token"}) {
    EXPECT_THAT(ProblemOf("{ field: " + name + " }"), HasSubstr("say `jwt: {")) << name;
  }
  EXPECT_THAT(ProblemOf("{ jwt: { issuer: i, audience: a } }"), HasSubstr("callers.jwt.jwks_file"));
  EXPECT_THAT(ProblemOf("{ jwt: { issuer: i, jwks_file: f } }"), HasSubstr("callers.jwt.audience"));
  EXPECT_THAT(ProblemOf("{ jwt: { " + token + ", field: Cookie } }"), HasSubstr("holds one token"));
  EXPECT_THAT(ProblemOf("{ field: X-T, jwt: { " + token + ", field: x-t } }"),
              HasSubstr("already, which jwt verifies"));
  EXPECT_THAT(ProblemOf("{ field: X-Agent }", "quotas: { callers: { a: {}, \"field:a\": {} } }\n"),
              HasSubstr("3:22: warning: quotas.callers.a: no caller has this name"));
}

}  // namespace
}  // namespace recourse::callers_test
