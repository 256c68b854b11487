#include "proxy/base/bytes.h"

#include <gtest/gtest.h>

#include <string>

namespace recourse::bytes_test {
namespace {

using namespace std::string_literals;

enum class Colour : std::uint8_t { kRed = 3 };

std::string Written() {
  std::string out;
  ByteWriter writer(out);
  writer.Int(std::uint8_t{7});
  writer.Int(std::int64_t{-2});
  writer.Int(Colour::kRed);
  writer.Text("text\0"s);
  writer.Raw("raw");
  writer.Text("");
  return out;
}

TEST(BytesTest, WhatIsWrittenIsReadBack) {
  const std::string bytes = Written();
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Int<std::uint8_t>(), 7);
  EXPECT_EQ(reader.Int<std::int64_t>(), -2);
  EXPECT_EQ(reader.Int<Colour>(), Colour::kRed);
  EXPECT_EQ(reader.Text(), "text\0"s);
  EXPECT_EQ(reader.Raw(3), "raw");
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(reader.Text(), "");
  EXPECT_TRUE(reader.ok());
  EXPECT_TRUE(reader.at_end());
}

TEST(BytesTest, TheLayoutIsLittleEndianWithFourByteLengths) {
  std::string out;
  ByteWriter writer(out);
  writer.Int(std::uint16_t{0x0102});
  writer.Text("ab");
  EXPECT_EQ(out, "\x02\x01\x02\0\0\0ab"s);
}

TEST(BytesTest, EveryCutIsNoticedAndStaysNoticed) {
  const std::string bytes = Written();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader reader(std::string_view(bytes).substr(0, size));
    reader.Int<std::uint8_t>();
    reader.Int<std::int64_t>();
    reader.Int<Colour>();
    reader.Text();
    reader.Raw(3);
    reader.Text();
    EXPECT_FALSE(reader.ok()) << size;
    EXPECT_FALSE(reader.at_end());
    EXPECT_EQ(reader.Int<std::uint8_t>(), 0);
    EXPECT_EQ(reader.Raw(0), "");
    EXPECT_EQ(reader.Text(), "");
    EXPECT_FALSE(reader.ok());
  }
}

TEST(BytesTest, ALengthThatLiesIsNoticed) {
  ByteReader reader(
      "\xff\xff\xff\xff"
      "abc");
  EXPECT_EQ(reader.Text(), "");
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace recourse::bytes_test
