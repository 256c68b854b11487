#include "proxy/admin/access/key_source.h"

#include <gtest/gtest.h>

#include <atomic>

#include "proxy/base/limits.h"
#include "tests/admin/issuer.h"

namespace recourse::key_source_test {
namespace {

class StepClock final : public Clock {
 public:
  MonoTime Now() const override { return MonoTime(Millis(now_ms_.load())); }
  WallTime WallNow() const override { return WallTime(Millis(now_ms_.load())); }
  void Skip(Millis by) { now_ms_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_ms_ = 1'000;
};

// What an issuer shows, and how often it was asked.
class Shown {
 public:
  void Show(std::expected<std::string, std::string> text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  UrlKeys::Fetch Fetch() {
    return [this] {
      ++asked;
      const std::lock_guard lock(mutex_);
      return text_;
    };
  }
  std::atomic<int> asked = 0;

 private:
  std::mutex mutex_;
  std::expected<std::string, std::string> text_;
};

Jwt TokenOf(const IssuerKey& key) { return *ParseJwt(key.Sign("{}")); }

TEST(UrlKeysTest, AnUnknownKeyIsAskedForAtMostOnceAMinute) {
  const IssuerKey first("k1"), second("k2"), third("k3");
  StepClock clock;
  Shown shown;
  shown.Show(JwksOf({first.Jwk()}));
  UrlKeys keys("https://login.example/keys", shown.Fetch(), clock);
  EXPECT_TRUE(HasSignature(TokenOf(first), *keys.Find(TokenOf(first))));
  EXPECT_EQ(shown.asked, 1);
  shown.Show(JwksOf({first.Jwk(), second.Jwk()}));
  EXPECT_TRUE(keys.Find(TokenOf(second)));
  EXPECT_EQ(shown.asked, 2);
  shown.Show(JwksOf({third.Jwk()}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(keys.Find(TokenOf(third)).error(), KeySource::Lack::kUnknown);
  }
  EXPECT_EQ(shown.asked, 2);
  clock.Skip(limits::kJwksSpacing);
  EXPECT_TRUE(keys.Find(TokenOf(third)));
  EXPECT_EQ(shown.asked, 3);
  // What the issuer took back is gone.
  EXPECT_EQ(keys.Find(TokenOf(first)).error(), KeySource::Lack::kUnknown);
}

TEST(UrlKeysTest, KeysOfBeforeAreUsedWhileTheIssuerIsAway) {
  const IssuerKey first("k1"), second("k2");
  StepClock clock;
  Shown shown;
  shown.Show(JwksOf({first.Jwk()}));
  UrlKeys keys("https://login.example/keys", shown.Fetch(), clock);
  EXPECT_TRUE(keys.Find(TokenOf(first)));
  shown.Show(std::unexpected("it is away"));
  EXPECT_EQ(keys.Find(TokenOf(second)).error(), KeySource::Lack::kUnknown);
  EXPECT_EQ(shown.asked, 2);
  EXPECT_TRUE(keys.Find(TokenOf(first)));
}

TEST(UrlKeysTest, WithoutAnyKeysNobodyIsJudged) {
  const IssuerKey first("k1");
  StepClock clock;
  Shown shown;
  shown.Show("{}");
  UrlKeys keys("https://login.example/keys", shown.Fetch(), clock);
  EXPECT_EQ(keys.Find(TokenOf(first)).error(), KeySource::Lack::kNotRead);
}

}  // namespace
}  // namespace recourse::key_source_test
