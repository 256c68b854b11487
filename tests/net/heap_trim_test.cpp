#include "proxy/net/loop/heap_trim.h"

#include <gtest/gtest.h>

namespace recourse::heap_trim_test {
namespace {

constexpr std::size_t kMega = 1024 * 1024;

HeapSize Megabytes(std::size_t resident, std::size_t free) {
  return {.resident = resident * kMega, .free = free * kMega};
}

TEST(TrimRuleTest, OnlyMuchMoreThanThereWasIsWorthIt) {
  TrimRule rule(Megabytes(20, 1));
  EXPECT_FALSE(rule.IsWorthIt(Megabytes(30, 8)));
  EXPECT_TRUE(rule.IsWorthIt(Megabytes(187, 8)));
}

TEST(TrimRuleTest, WhatATrimLeavesIsNotTriedAgain) {
  TrimRule rule(Megabytes(20, 1));
  EXPECT_TRUE(rule.IsWorthIt(Megabytes(187, 90)));
  rule.Trimmed(Megabytes(120, 90));  // what is in use, and holes without memory
  EXPECT_FALSE(rule.IsWorthIt(Megabytes(130, 90)));
}

TEST(TrimRuleTest, WhatWasInUseAtTheLastTrimIsWorthItWhenItIsFreed) {
  TrimRule rule(Megabytes(20, 1));
  rule.Trimmed(Megabytes(120, 30));
  EXPECT_TRUE(rule.IsWorthIt(Megabytes(120, 110)));
}

TEST(TrimRuleTest, HolesThatWereFilledInBetweenAreWorthItAgain) {
  TrimRule rule(Megabytes(20, 1));
  rule.Trimmed(Megabytes(20, 100));
  EXPECT_TRUE(rule.IsWorthIt(Megabytes(110, 100)));
}

}  // namespace
}  // namespace recourse::heap_trim_test
