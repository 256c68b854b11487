#include "proxy/base/crypto/jwt.h"

#include <gtest/gtest.h>

#include "proxy/admin/access/token_operator.h"
#include "proxy/base/limits.h"
#include "tests/admin/issuer.h"

namespace recourse::jwt_test {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;
const WallTime kWall{std::chrono::seconds(kNow)};
const JwtRule kRule = [] {
  JwtRule rule;
  rule.issuer = "https://login.example";
  rule.audience = "recourse";
  return rule;
}();

std::string Claims(std::string_view more) {
  return R"({"iss":"https://login.example","aud":"recourse","sub":"alice","exp":)" +
         std::to_string(kNow + 600) + std::string(more) + "}";
}

// The name in the token, or why there is none.
std::string Judge(const std::string& token, const JwkSet& keys, const JwtRule& rule = kRule) {
  const auto jwt = ParseJwt(token);
  if (!jwt) return jwt.error();
  const Jwk* const key = FindKey(keys, *jwt);
  if (key == nullptr) return "no key";
  if (!HasSignature(*jwt, *key)) return "bad signature";
  const auto who = OperatorOf(jwt->claims, rule, kWall);
  return who ? who->name : who.error();
}

class JwtTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    rsa_ = new IssuerKey("r1", 2'048);
    ec_ = new IssuerKey("e1");
    keys_ = new JwkSet(*ParseJwks(JwksOf({rsa_->Jwk(), ec_->Jwk(R"(,"use":"sig")")})));
  }
  static void TearDownTestSuite() {
    delete rsa_;
    delete ec_;
    delete keys_;
  }
  static inline const IssuerKey *rsa_, *ec_;
  static inline const JwkSet* keys_;
};

TEST_F(JwtTest, BothAlgorithmsAreTaken) {
  EXPECT_EQ(Judge(rsa_->Sign(Claims("")), *keys_), "alice");
  for (int i = 0; i < 32; ++i) {  // R or S begins with zeros now and then
    EXPECT_EQ(Judge(ec_->Sign(Claims("")), *keys_), "alice");
  }
}

TEST_F(JwtTest, ATokenIsWhatWasSignedByTheKeyThatItNames) {
  const std::string good = ec_->Sign(Claims(""));
  const auto first = good.find('.'), last = good.rfind('.');
  const std::string forged =
      good.substr(0, first + 1) + ToBase64Url(Claims(R"(,"groups":["sre"])")) + good.substr(last);
  EXPECT_EQ(Judge(forged, *keys_), "bad signature");
  EXPECT_EQ(Judge(IssuerKey("e1").Sign(Claims("")), *keys_), "bad signature");
  EXPECT_EQ(Judge(IssuerKey("e2").Sign(Claims("")), *keys_), "no key");
  EXPECT_EQ(Judge(good.substr(0, good.size() - 6), *keys_), "bad signature");
  // A kid of a key of the other algorithm.
  EXPECT_EQ(Judge(ec_->Sign(R"({"alg":"ES256","kid":"r1"})", Claims("")), *keys_), "no key");
}

TEST_F(JwtTest, OtherAlgorithmsAreNone) {
  for (const char* algorithm : {"none", "None", "HS256", "RS512", "PS256", "ES384", "rs256", ""}) {
    const std::string head = std::string(R"({"alg":")") + algorithm + R"(","kid":"r1"})";
    EXPECT_NE(Judge(rsa_->Sign(head, Claims("")), *keys_).find("algorithm is not accepted"),
              std::string::npos)
        << algorithm;
  }
}

TEST_F(JwtTest, AHeadWithTwoReadingsIsNone) {
  const std::string_view heads[] = {
      R"({"alg":"RS256","alg":"none","kid":"r1"})", R"({"alg":"RS256","kid":"r1","crit":["b64"]})",
      R"({"alg":"RS256","kid":7})", R"(["RS256"])", R"({"alg":"RS256","kid":""})"};
  for (const std::string_view head : heads) {
    EXPECT_NE(Judge(rsa_->Sign(head, Claims("")), *keys_), "alice") << head;
  }
  EXPECT_NE(Judge(rsa_->Sign(Claims(R"(,"sub":"bob")")), *keys_), "bob");
}

TEST_F(JwtTest, ATokenWithoutKidIsOfTheOnlyKey) {
  const std::string token = rsa_->Sign(R"({"alg":"RS256"})", Claims(""));
  EXPECT_EQ(Judge(token, *keys_), "alice");
  const auto two = ParseJwks(JwksOf({rsa_->Jwk(), IssuerKey("r2", 2'048).Jwk()}));
  EXPECT_EQ(Judge(token, *two), "no key");
}

TEST_F(JwtTest, ClaimsThatMakeATokenWorthless) {
  const std::string times = std::to_string(kNow - 61), later = std::to_string(kNow + 61);
  const std::pair<std::string, std::string_view> rows[] = {
      {R"({"iss":"https://login.example","aud":"recourse","sub":"a"})", "no time of expiry"},
      {R"({"iss":"https://login.example","aud":"recourse","sub":"a","exp":"9999999999"})",
       "no time of expiry"},
      {R"({"iss":"https://login.example","aud":"recourse","sub":"a","exp":)" + times + "}",
       "expired"},
      {R"({"iss":"https://login.example/","aud":"recourse","sub":"a","exp":9999999999})",
       "another issuer"},
      {R"({"iss":"https://login.example","aud":["a","b"],"sub":"a","exp":9999999999})",
       "another audience"},
      {R"({"iss":"https://login.example","sub":"a","exp":9999999999})", "another audience"},
      {Claims(R"(,"nbf":)" + later), "not valid yet"},
      {Claims(R"(,"nbf":null)"), "nbf is no time"},
      {Claims(R"(,"groups":{"a":1})"), "neither a text nor a list"},
      {Claims(R"(,"groups":[1])"), "no text"},
  };
  for (const auto& [claims, why] : rows) {
    EXPECT_NE(Judge(ec_->Sign(claims), *keys_).find(why), std::string::npos) << claims;
  }
  EXPECT_EQ(Judge(ec_->Sign(Claims(R"(,"nbf":)" + std::to_string(kNow + 59) + ".5")), *keys_),
            "alice");
}

TEST_F(JwtTest, TheRuleSaysWhichClaimsNameThePerson) {
  JwtRule rule = kRule;
  rule.name_claim = "email";
  rule.groups_claim = "/realm/roles";
  const auto claims =
      ParseJson(Claims(R"(,"email":"alice@example.com","realm":{"roles":["sre","a\nb"]})"));
  const auto who = OperatorOf(*claims, rule, kWall);
  ASSERT_TRUE(who);
  EXPECT_EQ(who->name, "alice@example.com");
  EXPECT_EQ(who->groups, std::vector<std::string>{"sre"});
  EXPECT_EQ(who->roles, Roles());
  for (const char* name : {R"("admin")", R"("")", R"("a\"b")", R"("a\nb")", R"("ä")", "7"}) {
    const auto bad = ParseJson(Claims(std::string(R"(,"email":)") + name));
    EXPECT_FALSE(OperatorOf(*bad, rule, kWall)) << name;
  }
}

TEST_F(JwtTest, TheNumberOfGroupsAndBytesIsBounded) {
  std::string groups = R"(,"groups":[)";
  for (std::size_t i = 0; i <= limits::kOperatorGroupsMax; ++i) groups += "\"g\",";
  groups.back() = ']';
  EXPECT_NE(Judge(ec_->Sign(Claims(groups)), *keys_).find("more than 512"), std::string::npos);
  const std::string large = Claims(R"(,"x":")" + std::string(limits::kJwtBytesMax, 'x') + "\"");
  EXPECT_NE(Judge(ec_->Sign(large), *keys_).find("over 12 KiB"), std::string::npos);
}

TEST(JwksTest, KeysThatCannotVerifyAreLeftOut) {
  const IssuerKey rsa("r1", 2'048), small("s1", 1'024);
  for (const std::string& key :
       {rsa.Jwk(R"(,"use":"enc")"), rsa.Jwk(R"(,"alg":"RS512")"), rsa.Jwk(R"(,"key_ops":["sign"])"),
        small.Jwk(), std::string(R"({"kty":"oct","k":"c2VjcmV0","alg":"HS256"})"),
        std::string(R"({"kty":"EC","crv":"P-256","x":"AA","y":"AA"})"), std::string("7")}) {
    EXPECT_FALSE(ParseJwks(JwksOf({key}))) << key;
    EXPECT_EQ(ParseJwks(JwksOf({key, rsa.Jwk()}))->size(), 1U) << key;
  }
  // A point that is not on the curve.
  std::string off = IssuerKey("e1").Jwk();
  off[off.find("\"y\":\"") + 5] ^= 1;
  EXPECT_FALSE(ParseJwks(JwksOf({off})));
  EXPECT_FALSE(ParseJwks("[]"));
  EXPECT_FALSE(ParseJwks(R"({"keys":{}})"));
}

}  // namespace
}  // namespace recourse::jwt_test
