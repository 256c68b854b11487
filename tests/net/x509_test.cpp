#include "proxy/net/tls/x509.h"

#include <gtest/gtest.h>

namespace recourse::x509_test {
namespace {

TEST(X509Test, ACertificateWithoutAnEndEndsLongAfterItBegan) {
  const X509Ptr certificate(X509_new());
  ASSERT_TRUE(ASN1_TIME_set_string(X509_getm_notBefore(certificate.get()), "19500101000000Z"));
  // RFC 5280 4.1.2.5: no well-defined end.
  ASSERT_TRUE(ASN1_TIME_set_string(X509_getm_notAfter(certificate.get()), "99991231235959Z"));
  const WallTime now(std::chrono::hours(490'000));  // 2025
  EXPECT_LT(BeginOf(*certificate), now);
  EXPECT_GT(EndOf(*certificate), now + std::chrono::hours(24 * 365 * 100));
  EXPECT_GT(EndOf(*certificate) - BeginOf(*certificate), std::chrono::hours(24 * 365 * 100));
}

}  // namespace
}  // namespace recourse::x509_test
