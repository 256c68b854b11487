// Nobody decides what comes in a name of theirs, by whatever credential they come.
#include "proxy/admin/access/own_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "proxy/base/json/json.h"
#include "tests/admin/issuer.h"

namespace recourse::own_call_test {
namespace {

CallersRule ByEmail() {
  CallersRule rule;
  rule.jwt.emplace().claim = "email";
  return rule;
}

// By a token whose `sub` is the name.
Operator Person(const std::string& sub, const std::string& email) {
  Operator who{.name = sub, .groups = {}, .roles = {}, .how = Operator::How::kJwt};
  who.name_claim = "sub";
  who.claims = std::make_shared<const Json>(
      *ParseJson(R"({"sub":")" + sub + R"(","email":")" + email + "\"}"));
  return who;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

TEST(OwnCallTest, ATokenThatIsTheCallersByItsOtherClaimIsTheCallers) {
  const AskedCall call{.caller = "jwt:agent@x;cn:pod"};
  EXPECT_EQ(OwnNameIn(call, Person("ann", "agent@x"), ByEmail()), "agent@x");
  EXPECT_EQ(OwnNameIn(call, Person("agent@x", "ann@x"), ByEmail()), "agent@x");
  EXPECT_EQ(OwnNameIn(call, Person("ann", "ann@x"), ByEmail()), "");
  EXPECT_EQ(OwnNameIn(call, Person("ann", "agent@x"), {}), "") << "no claim names callers";
}

TEST(OwnCallTest, WhomTheAskersTokenNamesByTheOperatorsClaimHasAsked) {
  const IssuerKey key("k");
  const Fields fields = {
      {"Content-Type", "application/json"},
      {"authorization", "Bearer " + key.Sign(R"({"sub":"ann","email":"agent@x"})")}};
  const AskedCall call{.caller = "jwt:agent@x", .fields = &fields};
  EXPECT_EQ(OwnNameIn(call, Person("ann", "ann@x"), ByEmail()), "ann");
  EXPECT_EQ(OwnNameIn(call, Person("bob", "bob@x"), ByEmail()), "");
  // Nobody has looked whether that token holds.
  const AskedCall other{.caller = "field:agent", .fields = &fields};
  EXPECT_EQ(OwnNameIn(other, Person("ann", "ann@x"), ByEmail()), "");
}

TEST(OwnCallTest, ACertificateBesideATokenCounts) {
  Operator who{.name = "ann", .groups = {}, .roles = {}};
  who.certificate = "cn:pod";
  EXPECT_EQ(OwnNameIn({.caller = "cn:pod"}, who, {}), "cn:pod");
  EXPECT_EQ(OwnNameIn({.caller = "jwt:x;cn:pod"}, who, ByEmail()), "cn:pod");
  EXPECT_EQ(OwnNameIn({.caller = "cn:other"}, who, {}), "");
  EXPECT_EQ(NamesOf(who, ByEmail()), (std::vector<std::string>{"ann", "cn:pod"}));
}

}  // namespace
}  // namespace recourse::own_call_test
