#include "proxy/server/ca_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "proxy/base/ca_limits.h"
#include "proxy/base/random.h"

namespace recourse {
namespace {

using std::chrono::hours;

class CaDirectoryTest : public testing::Test {
 protected:
  ~CaDirectoryTest() override { std::filesystem::remove_all(directory_); }

  KeptCa Keep(WallTime now, std::vector<std::string> hosts = {}) {
    auto kept = Try(now, std::move(hosts));
    EXPECT_TRUE(kept.has_value()) << kept.error();
    return kept.value_or(KeptCa{});
  }
  FileResult<KeptCa> Try(WallTime now, std::vector<std::string> hosts = {}) {
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
  const KeptCa made = Keep(start_, {"api.shop.example", "10.0.0.7"});
  EXPECT_EQ(made.ca->Forbidden({"api.shop.example", "10.0.0.7"}), "");
  EXPECT_EQ(made.ca->Forbidden({"shop.example"}), "shop.example");
  EXPECT_EQ(made.ca->Forbidden({"10.0.0.8"}), "10.0.0.8");
  EXPECT_EQ(made.ca->Forbidden({"::1"}), "::1");
}

TEST_F(CaDirectoryTest, NamesAloneForbidEveryAddressAndTheOtherWayRound) {
  EXPECT_EQ(Keep(start_, {"a.example"}).ca->Forbidden({"10.0.0.7"}), "10.0.0.7");
  const KeptCa widened = Keep(start_, {"::1"});
  EXPECT_EQ(widened.ca->Forbidden({"::1"}), "");
  EXPECT_EQ(widened.ca->Forbidden({"a.example"}), "a.example");
  EXPECT_EQ(widened.ca->Forbidden({"127.0.0.1"}), "127.0.0.1");
}

TEST_F(CaDirectoryTest, IsMadeAnewForAHostThatItForbids) {
  Keep(start_, {"a.example"});
  const std::string key = Key();
  const KeptCa widened = Keep(start_, {"a.example", "b.example"});
  EXPECT_EQ(widened.state, CaState::kWidened);
  EXPECT_EQ(widened.ca->Forbidden({"b.example"}), "");
  EXPECT_EQ(Key(), key);
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
}  // namespace recourse
