#include "proxy/base/latest_texts.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/hex.h"

namespace recourse::latest_texts_test {
namespace {

int made = 0;

std::string Doubled(std::string_view text) {
  ++made;
  return std::string(text) + std::string(text);
}

TEST(LatestTextsTest, WhatComesAgainIsMadeOnceAndNothingIsMistakenForAnother) {
  constexpr std::size_t kBytes = 8, kPlaces = 4;
  for (int round = 0; round < 3; ++round) {
    for (const char* text : {"", "a", "b", "ab", "abc", "abcd", "12345678", "123456789"}) {
      made = 0;
      const std::string expected = std::string(text) + text;
      EXPECT_EQ((LatestOf<Doubled, kBytes, kPlaces>(text)), expected);
      EXPECT_EQ((LatestOf<Doubled, kBytes, kPlaces>(text)), expected);
      const bool is_kept = std::string_view(text).size() <= kBytes;
      EXPECT_EQ(made > 1, !is_kept) << text;
    }
  }
}

TEST(HexTest, OneStrangerAnywhereIsSeen) {
  for (const std::size_t size : {0U, 1U, 2U, 15U, 16U, 17U, 32U, 40U}) {
    std::string text(size, '9');
    for (std::size_t i = 0; i < size; ++i) text[i] = kHexDigits[i % 16];
    EXPECT_TRUE(IsLowerHex(text)) << text;
    for (std::size_t at = 0; at < size; ++at) {
      for (const char stranger : {'/', ':', '`', 'g', 'A', 'F', '\0', '\x7f', '\xb0', '\xe1'}) {
        std::string other = text;
        other[at] = stranger;
        EXPECT_FALSE(IsLowerHex(other)) << other;
      }
    }
  }
}

}  // namespace
}  // namespace recourse::latest_texts_test
