#include "proxy/inject/cluster/webhook_ca.h"

#include <gtest/gtest.h>

#include "proxy/net/tls/pod_ca.h"

namespace recourse::webhook_ca_test {
namespace {

constexpr std::chrono::days kLife{360};

struct Life {
  SystemRandom random;
  WallTime now = WallTime{} + std::chrono::days{20'000};
  WebhookCas cas;

  void Look(bool is_published) {
    const auto next = NextCas(
        cas, {.name = "i.n.svc", .now = now, .life = kLife, .is_published = is_published}, random);
    ASSERT_TRUE(next) << next.error();
    cas = *next;
  }
  std::size_t Trusted() const { return CertificatesIn(cas.trusted).size(); }
};

TEST(WebhookCa, TheFirstOneSignsAtOnceAndStays) {
  Life life;
  life.Look(false);
  EXPECT_TRUE(PodCa::Read(life.cas.signing, life.cas.key));
  EXPECT_EQ(life.cas.trusted, life.cas.signing);
  const WebhookCas first = life.cas;
  for (int day = 0; day < 200; ++day, life.now += std::chrono::days{1}) life.Look(true);
  EXPECT_EQ(life.cas, first);
}

TEST(WebhookCa, ASuccessorIsTrustedForADayBeforeItSignsAndTheOldOneToItsEnd) {
  Life life;
  life.Look(true);
  const std::string first = life.cas.signing;
  life.now += std::chrono::days{241};
  life.Look(true);
  EXPECT_EQ(life.cas.signing, first);
  EXPECT_NE(life.cas.next, "");
  EXPECT_EQ(life.Trusted(), 2u);
  life.now += std::chrono::hours{23};
  life.Look(true);
  EXPECT_EQ(life.cas.signing, first);
  life.now += std::chrono::hours{1};
  const std::string next = life.cas.next;
  life.Look(true);
  EXPECT_EQ(life.cas.signing, next);
  EXPECT_EQ(life.cas.next, "");
  EXPECT_EQ(life.Trusted(), 2u);
  life.now += std::chrono::days{118};
  life.Look(true);
  EXPECT_EQ(life.cas.trusted, life.cas.signing);
}

TEST(WebhookCa, OneThatApiServersDoNotKnowNeverSignsWhileAnotherCan) {
  Life life;
  life.Look(true);
  const std::string first = life.cas.signing;
  life.now += std::chrono::days{241};
  for (int day = 0; day < 118; ++day, life.now += std::chrono::days{1}) {
    life.Look(false);
    ASSERT_EQ(life.cas.signing, first) << day;
  }
  life.now += std::chrono::days{2};
  life.Look(false);
  EXPECT_NE(life.cas.signing, first);  // that one has ended
}

TEST(WebhookCa, WhatCannotBeReadIsMadeAnew) {
  Life life;
  life.cas = {.trusted = "x", .signing = "y", .key = "z", .next = "a", .next_key = "b"};
  life.Look(true);
  EXPECT_TRUE(PodCa::Read(life.cas.signing, life.cas.key));
  EXPECT_EQ(life.cas.trusted, life.cas.signing);
  EXPECT_EQ(life.cas.next + life.cas.next_key, "");
}

}  // namespace
}  // namespace recourse::webhook_ca_test
