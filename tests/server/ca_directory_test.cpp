#include "proxy/ca/ca_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "proxy/base/ca_limits.h"
#include "proxy/base/random.h"

namespace recourse::ca_directory_test {
namespace {

using std::chrono::hours;

class CaDirectoryTest : public testing::Test {
 protected:
  ~CaDirectoryTest() override { std::filesystem::remove_all(directory_); }

  using Hosts = std::optional<std::vector<std::string>>;  // nothing: any

  KeptCa Keep(WallTime now, Hosts hosts = {}) {
    auto kept = Try(now, std::move(hosts));
    EXPECT_TRUE(kept.has_value()) << kept.error();
    return kept.value_or(KeptCa{});
  }
  FileResult<KeptCa> Try(WallTime now, Hosts hosts = {}) {
    return KeepCa(directory_,
                  {.name = "pod-1", .hosts = std::move(hosts), .now = now, .life = limits::kCaLife},
                  random_);
  }
  std::string Key() const { return *ReadPrivateFile(directory_ + "/ca.key", 4096); }

  SystemRandom random_;
  const std::string directory_ = testing::TempDir() + "/ca_directory_" +
                                 testing::UnitTest::GetInstance()->current_test_info()->name();
  const WallTime start_ = WallTime(hours(490'000));
};

TEST_F(CaDirectoryTest, IsMadeOnceAndThenFound) {
  const KeptCa made = Keep(start_);
  EXPECT_EQ(made.state, CaState::kMade);
  EXPECT_EQ(made.ca->end(), start_ + limits::kCaLife);
  EXPECT_EQ(made.ca->begin(), start_ - limits::kCertificateBackdate);
  const KeptCa found = Keep(start_ + hours(1));
  EXPECT_EQ(found.state, CaState::kFound);
  EXPECT_EQ(found.ca->Pem(), made.ca->Pem());
}

TEST_F(CaDirectoryTest, OnlyItsOwnerReachesTheKey) {
  Keep(start_);
  struct stat info = {};
  ASSERT_EQ(::stat((directory_ + "/ca.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(directory_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(CaDirectoryTest, IsRenewedForTheSameKeyWithLessThanAThirdLeft) {
  const KeptCa made = Keep(start_);
  const std::string key = Key();
  EXPECT_EQ(Keep(start_ + limits::kCaLife * 66 / 100).state, CaState::kFound);
  const WallTime late = start_ + limits::kCaLife * 67 / 100;
  const KeptCa renewed = Keep(late);
  EXPECT_EQ(renewed.state, CaState::kRenewed);
  EXPECT_EQ(renewed.ca->end(), late + limits::kCaLife);
  EXPECT_EQ(Key(), key);
  // Whoever trusts the old one trusts what the new one signs.
  EXPECT_EQ(X509_NAME_cmp(X509_get_subject_name(&made.ca->certificate()),
                          X509_get_subject_name(&renewed.ca->certificate())),
            0);
}

TEST_F(CaDirectoryTest, IsRenewedAlsoWhenItHasExpired) {
  Keep(start_);
  EXPECT_EQ(Keep(start_ + limits::kCaLife * 3).state, CaState::kRenewed);
}

TEST_F(CaDirectoryTest, MaySignForTheHostsItWasMadeForAlone) {
  const KeptCa made = Keep(start_, {{"api.shop.example", "10.0.0.7"}});
  EXPECT_EQ(made.ca->Forbidden({"api.shop.example", "10.0.0.7"}), "");
  EXPECT_EQ(made.ca->Forbidden({"shop.example"}), "shop.example");
  EXPECT_EQ(made.ca->Forbidden({"10.0.0.8"}), "10.0.0.8");
  EXPECT_EQ(made.ca->Forbidden({"::1"}), "::1");
}

TEST_F(CaDirectoryTest, NamesAloneForbidEveryAddressAndTheOtherWayRound) {
  EXPECT_EQ(Keep(start_, {{"a.example"}}).ca->Forbidden({"10.0.0.7"}), "10.0.0.7");
  std::filesystem::remove_all(directory_);
  const KeptCa of_address = Keep(start_, {{"::1"}});
  EXPECT_EQ(of_address.ca->Forbidden({"::1"}), "");
  EXPECT_EQ(of_address.ca->Forbidden({"a.example"}), "a.example");
  EXPECT_EQ(of_address.ca->Forbidden({"127.0.0.1"}), "127.0.0.1");
}

TEST_F(CaDirectoryTest, IsMadeAnewForAHostThatItForbids) {
  const KeptCa made = Keep(start_, {{"a.example"}});
  const std::string key = Key();
  const KeptCa widened = Keep(start_ + hours(1), {{"b.example", "10.0.0.7", "fd00::7"}});
  EXPECT_EQ(widened.state, CaState::kWidened);
  EXPECT_TRUE(widened.has_further_hosts);
  EXPECT_THAT(widened.ca->Permitted(),
              testing::ElementsAre("a.example", "b.example", "10.0.0.7", "fd00::7"));
  EXPECT_EQ(Key(), key);
  // Else a policy that changes every day would put the renewal off for ever.
  EXPECT_EQ(widened.ca->begin(), made.ca->begin());
  EXPECT_EQ(widened.ca->end(), made.ca->end());
}

// A reload over the API prepares the new policy while the main thread looks for the old one.
TEST_F(CaDirectoryTest, PoliciesThatAlternateComeToRest) {
  const Hosts old_hosts = {{"a.example", "10.0.0.7"}}, new_hosts = {{"b.example"}};
  Keep(start_, old_hosts);
  const std::string both = Keep(start_, new_hosts).ca->Pem();
  for (const Hosts& hosts : {old_hosts, new_hosts, old_hosts}) {
    const KeptCa kept = Keep(start_ + hours(1), hosts);
    EXPECT_EQ(kept.state, CaState::kFound);
    EXPECT_EQ(kept.ca->Pem(), both);
  }
}

TEST_F(CaDirectoryTest, IsLeftAloneWhileItHasNobodyToSignFor) {
  const std::string made = Keep(start_, {{"a.example"}}).ca->Pem();
  for (const WallTime now : {start_, start_ + limits::kCaLife * 9 / 10, start_ + hours(9'000)}) {
    const KeptCa kept = Keep(now, std::vector<std::string>());
    EXPECT_EQ(kept.state, CaState::kFound);
    EXPECT_EQ(kept.ca->Pem(), made);
  }
}

TEST_F(CaDirectoryTest, OneForNobodyPermitsNothing) {
  const KeptCa made = Keep(start_, std::vector<std::string>());
  EXPECT_EQ(made.ca->Forbidden({"a.example"}), "a.example");
  EXPECT_EQ(made.ca->Forbidden({"10.0.0.7"}), "10.0.0.7");
  EXPECT_THAT(made.ca->Permitted(), testing::IsEmpty());
}

TEST_F(CaDirectoryTest, ItsRenewalLeavesOutWhatNobodyWishesAnyMore) {
  Keep(start_, {{"a.example", "b.example"}});
  const WallTime late = start_ + limits::kCaLife * 67 / 100;
  const KeptCa renewed = Keep(late, {{"b.example"}});
  EXPECT_EQ(renewed.state, CaState::kRenewed);
  EXPECT_FALSE(renewed.has_further_hosts);
  EXPECT_THAT(renewed.ca->Permitted(), testing::ElementsAre("b.example"));
  EXPECT_TRUE(Keep(late + limits::kCaLife, {{"c.example"}}).has_further_hosts);
}

TEST_F(CaDirectoryTest, AKeyWithoutCertificateGetsOne) {
  Keep(start_);
  const std::string key = Key();
  std::filesystem::remove(directory_ + "/ca.crt");
  EXPECT_EQ(Keep(start_).state, CaState::kMade);
  EXPECT_EQ(Key(), key);
}

TEST_F(CaDirectoryTest, ACertificateOfAnotherKeyIsRefused) {
  const KeptCa made = Keep(start_);
  std::filesystem::remove_all(directory_);
  Keep(start_);
  std::ofstream(directory_ + "/ca.crt") << made.ca->Pem();
  const auto kept = Try(start_);
  ASSERT_FALSE(kept.has_value());
  EXPECT_THAT(kept.error(), testing::HasSubstr("another key"));
}

TEST_F(CaDirectoryTest, AKeyThatOthersMayReadIsRefused) {
  Keep(start_);
  std::filesystem::permissions(directory_ + "/ca.key", std::filesystem::perms(0644));
  const auto kept = Try(start_);
  ASSERT_FALSE(kept.has_value());
  EXPECT_THAT(kept.error(), testing::HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace recourse::ca_directory_test
