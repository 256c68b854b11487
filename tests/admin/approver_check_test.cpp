#include "proxy/admin/access/approver_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace recourse::approver_check_test {
namespace {

using ::testing::ElementsAre;

const std::string kDigest(64, 'a');

// Of the policy whose approval names these, beside that operators file.
std::vector<std::string> Nobodies(const std::string& by, const std::string& operators) {
  const auto policy = LoadPolicyText(
      "p.yaml",
      "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t:\n    match: POST b /x\n"
      "    effect: write\n    undo: none\n    approval: { by: " +
          by + " }\n");
  EXPECT_TRUE(policy.ok());
  const auto loaded =
      LoadOperatorsText("o.yaml", "version: 1\n" + operators,
                        [](const std::string&) { return std::unexpected(std::string("none")); });
  EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.problems.front().ToString());
  std::vector<std::string> told;
  for (const auto& problem : ApproversThatNobodyIs(policy.approvers, *loaded.book, "o.yaml")) {
    told.push_back(problem.ToString());
  }
  return told;
}

std::string Token(const std::string& more) {
  return "tokens: [ { name: ann, sha256: " + kDigest + ", " + more + " } ]\n";
}

TEST(ApproverCheck, WhoNobodyIsIsToldWithTheirPlaceInThePolicy) {
  const std::string people = Token("groups: [ finance ], roles: [ approve ]");
  EXPECT_THAT(
      Nobodies("[ finance, fiance ]", people),
      ElementsAre("p.yaml:8:32: warning: tools.t.approval.by[1]: nobody in o.yaml is 'fiance', "
                  "or in a group of that name, and has the role approve"));
  EXPECT_THAT(Nobodies("[ finance, ann ]", people), ElementsAre());
}

TEST(ApproverCheck, APersonWithTheNameOfAGroupIsNotTheGroup) {
  const std::string people = "tokens: [ { name: finance, sha256: " + kDigest +
                             ", roles: [ approve ] },\n  { name: ann, " +
                             "sha256: " + std::string(64, 'b') + ", groups: [ finance ] } ]\n";
  EXPECT_EQ(Nobodies("[ finance ]", people).size(), 1U);
}

TEST(ApproverCheck, WithoutAnOperatorsFileOneWarningNamesAll) {
  const NamedApprover finance{
      "finance", {.file = "p.yaml", .line = 8, .column = 32, .key = "by", .message = {}}};
  NamedApprover ann = finance;
  ann.name = "ann";
  EXPECT_THAT(ApproversWithoutFile({}), ElementsAre());
  const auto told = ApproversWithoutFile({finance, ann, finance});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].ToString(),
            "p.yaml:8:32: warning: by: nobody can approve, as no --operators FILE is given: such "
            "calls wait until they expire; name people in one who have the role approve and are, "
            "or are in a group called: ann, finance");
}

TEST(ApproverCheck, WhoMayNotApproveIsNobody) {
  EXPECT_EQ(Nobodies("finance", Token("groups: [ finance ], roles: [ read ]")).size(), 1U);
  EXPECT_EQ(Nobodies("finance", Token("groups: [ finance ]") + "roles: { approve: [ finance ] }\n")
                .size(),
            0U);
}

TEST(ApproverCheck, CertificatesCountAndAnIssuerMayNameAnybody) {
  const std::string ann = "client_certificates: { groups: { \"cn:ann\": [ finance ] } }\n";
  EXPECT_EQ(Nobodies("[ finance, \"cn:ann\" ]", ann + "roles: { approve: [ finance ] }\n").size(),
            0U);
  EXPECT_EQ(Nobodies("finance", ann).size(), 1U);
  EXPECT_EQ(Nobodies("finance",
                     "jwt: { issuer: i, audience: a, jwks_url: \"https://login.example/keys\" }\n")
                .size(),
            0U);
}

}  // namespace
}  // namespace recourse::approver_check_test
