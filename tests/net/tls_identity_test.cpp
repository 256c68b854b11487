#include "proxy/net/tls/tls_identity.h"

#include <gtest/gtest.h>

#include "proxy/base/limits.h"

namespace recourse::tls_identity_test {
namespace {

TEST(TlsIdentityTest, ASpiffeIdComesBeforeADnsNameAndThatBeforeTheCommonName) {
  EXPECT_EQ(IdentityOf({{"https://x", "spiffe://a/b"}, {"d"}, "c"}), "spiffe://a/b");
  EXPECT_EQ(IdentityOf({{"https://x"}, {"d", "e"}, "c"}), "dns:d");
  EXPECT_EQ(IdentityOf({{}, {}, "Agent One"}), "cn:Agent One");
}

TEST(TlsIdentityTest, OneKindOfNameNeverPosesAsAnother) {
  EXPECT_EQ(IdentityOf({{}, {"spiffe://a/b"}, ""}), "dns:spiffe://a/b");
  EXPECT_EQ(IdentityOf({{}, {}, "local"}), "cn:local");
  EXPECT_EQ(IdentityOf({{}, {}, "dns:d"}), "cn:dns:d");
}

TEST(TlsIdentityTest, NamesThatCannotBeToldApartSafelyAreNone) {
  EXPECT_FALSE(IdentityOf({}));
  EXPECT_FALSE(IdentityOf({{"spiffe://a/b", "spiffe://a/c"}, {"d"}, "c"}));
  EXPECT_FALSE(IdentityOf({{}, {std::string("good.test\0.bad.test", 19)}, ""}));
  EXPECT_FALSE(IdentityOf({{}, {""}, "c"}));
  EXPECT_FALSE(IdentityOf({{}, {}, "a\nb"}));
  EXPECT_FALSE(IdentityOf({{}, {}, "a\"b"}));
  EXPECT_FALSE(IdentityOf({{}, {}, "a\\b"}));
  EXPECT_FALSE(IdentityOf({{}, {}, "J\xc3\xbcrgen"}));
  EXPECT_TRUE(IdentityOf({{}, {}, std::string(limits::kCallerBytesMax - 3, 'a')}));
  EXPECT_FALSE(IdentityOf({{}, {}, std::string(limits::kCallerBytesMax - 2, 'a')}));
}

}  // namespace
}  // namespace recourse::tls_identity_test
