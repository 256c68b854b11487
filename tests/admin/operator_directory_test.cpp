#include "proxy/admin/access/operator_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace recourse::operator_book_test {
namespace {

LoadedOperators Load(const std::string& yaml) {
  return LoadOperatorsText("o.yaml", "version: 1\n" + yaml,
                           [](const std::string&) { return std::unexpected("is not there"); });
}

std::string Row(const std::string& name, const std::string& token, const std::string& more) {
  return "  - { name: " + name + ", sha256: \"" + ToHex(TokenDigest(token)) + "\"" + more + " }\n";
}

std::vector<std::string> ProblemsOf(const std::string& yaml) {
  std::vector<std::string> texts;
  for (const auto& problem : Load(yaml).problems) texts.push_back(problem.ToString());
  return texts;
}

TEST(OperatorBookTest, RolesComeFromTheTokenAndFromItsGroups) {
  const auto loaded = Load("tokens:\n" + Row("alice", "a", ", groups: [ team, x ]") +
                           Row("bob", "b", ", roles: [ read ]") +
                           Row("carol", "c", ", groups: sre, roles: [ approve ]") +
                           "roles: { read: [ team, sre ], repair: [ sre ] }\n");
  ASSERT_TRUE(loaded.ok());
  const auto roles = [&](std::string_view token) {
    std::string text;
    for (const auto& [name, role] : kRoleNames) {
      if (loaded.book->FindToken(TokenDigest(token))->roles.Has(role)) text.append(name) += ' ';
    }
    return text;
  };
  EXPECT_EQ(roles("a"), "read ");
  EXPECT_EQ(roles("b"), "read ");
  EXPECT_EQ(roles("c"), "read approve repair ");
  EXPECT_EQ(loaded.book->FindToken(TokenDigest("a"))->name, "alice");
  EXPECT_TRUE(loaded.book->FindToken(TokenDigest("a"))->IsIn("x"));
  EXPECT_FALSE(loaded.book->FindToken(TokenDigest("d")));
}

TEST(OperatorBookTest, ACertificateHasTheRolesOfItsGroupsAndElseNone) {
  const auto loaded = Load(
      "client_certificates: { groups: { \"spiffe://a/b\": [ sre ] } }\nroles: { repair: sre }\n");
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded.book->OfCertificate("spiffe://a/b").roles.Has(Role::kRepair));
  EXPECT_EQ(loaded.book->OfCertificate("cn:other").roles, Roles());
}

TEST(OperatorBookTest, EachErrorSaysWhereAndWhatIsAccepted) {
  using testing::Contains;
  using testing::HasSubstr;
  const std::pair<std::string, std::string_view> rows[] = {
      {"", "o.yaml:1:1: error: names nobody"},
      {"tokens: 7\n", "o.yaml:2:9: error: tokens: a list of"},
      {"tokens:\n  - { sha256: \"12\" }\n", "tokens[0].name"},
      {"tokens:\n  - { name: a }\n", "recourse operators token NAME"},
      {"tokens:\n  - { name: a, sha256: \"12\" }\n", "64 hexadecimal digits"},
      {"tokens:\n" + Row("a", "t", ", roles: [ root ]"), "accepted: read, approve, repair"},
      {"tokens:\n" + Row("admin", "t", ""), "name a person"},
      {"tokens:\n" + Row("a", "t", "") + Row("b", "t", ""),
       "tokens[1].sha256: this token is listed"},
      {"tokens:\n" + Row("'a\"b'", "t", ""), "printable ASCII"},
      {"jwt: { issuer: a }\n", "jwt.audience"},
      {"jwt: { issuer: a, audience: b }\n", "accepted: jwks_file or jwks_url"},
      {"jwt: { issuer: a, audience: b, jwks_url: \"http://a/k\" }\n", "accepted: an https:// url"},
      {"jwt: { issuer: a, audience: b, jwks_file: k }\n",
       "o.yaml:2:32: error: jwt.jwks_file: k: is"},
      {"client_certificates: { names: { } }\n", "client_certificates.groups"},
      {"roles: { reed: [ a ] }\n", "did you mean 'read'?"},
      {"token: []\n", "did you mean 'tokens'?"},
  };
  for (const auto& [yaml, text] : rows) {
    EXPECT_THAT(ProblemsOf(yaml), Contains(HasSubstr(std::string(text)))) << yaml;
    EXPECT_FALSE(Load(yaml).ok()) << yaml;
  }
  EXPECT_FALSE(LoadOperatorsText("o.yaml", "tokens: []", nullptr).ok());
}

}  // namespace
}  // namespace recourse::operator_book_test
