// What a rule learns of the facts that it asks for, with somebody who finds them and without.
#include "filters/ledger/rules/known.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace recourse::known_test {
namespace {

// Its row is under every mark, and nothing else is there.
class MarksOnly final : public FactFinder {
 public:
  void Find(const Subject& subject, Known& known) override {
    ++asked_;
    const auto& mark = std::get<MarkSince>(subject);
    known.Put(mark, std::optional<std::uint64_t>(mark.mark.front() + 1U));
  }
  int asked() const { return asked_; }

 private:
  int asked_ = 0;
};

MarkSince MarkNumber(unsigned char number) {
  MarkSince mark;
  mark.mark.front() = number;
  return mark;
}

TEST(KnownTest, WhatAFinderHasIsThereAtOnceAndAskedForOnce) {
  MarksOnly finder;
  Known known;
  known.finder = &finder;
  const auto first = known.Get(MarkNumber(1));
  ASSERT_TRUE(first);
  EXPECT_EQ(**first, 2U);
  ASSERT_TRUE(known.Get(MarkNumber(1)));
  EXPECT_EQ(finder.asked(), 1);
  EXPECT_TRUE(known.needs().empty());
}

TEST(KnownTest, AFactStaysWhereItIsWhileMoreAreFound) {
  MarksOnly finder;
  Known known;
  known.finder = &finder;
  const auto first = known.Get(MarkNumber(0));
  ASSERT_TRUE(first);
  for (unsigned char number = 1; number < 100; ++number) {
    ASSERT_TRUE(known.Get(MarkNumber(number)));
  }
  EXPECT_EQ(*first, *known.Get(MarkNumber(0)));
  EXPECT_EQ(**first, 1U);
}

TEST(KnownTest, WithoutAFinderAllThatIsMissingIsNeeded) {
  Known known;
  const auto done = known.Require(std::vector{MarkNumber(1), MarkNumber(2)});
  ASSERT_FALSE(done);
  EXPECT_TRUE(std::holds_alternative<Need>(done.error()));
  ASSERT_EQ(known.needs().size(), 2U);
  known.Put(MarkNumber(1), std::optional<std::uint64_t>(7));
  known.BeginRound();
  EXPECT_EQ(**known.Get(MarkNumber(1)), 7U);
  EXPECT_FALSE(known.Get(MarkNumber(2)));
  EXPECT_EQ(known.needs().size(), 1U);
}

}  // namespace
}  // namespace recourse::known_test
