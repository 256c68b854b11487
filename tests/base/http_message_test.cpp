#include "proxy/base/http/http_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace recourse::http_message_test {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(HttpMessageTest, NamesAreComparedWithoutCase) {
  EXPECT_TRUE(EqualsIgnoreCase("Content-Type", "content-TYPE"));
  EXPECT_TRUE(EqualsIgnoreCase("", ""));
  EXPECT_FALSE(EqualsIgnoreCase("a", "ab"));
  EXPECT_FALSE(EqualsIgnoreCase("ab", "a"));
  // Bytes that differ only in bit 0x20 but are not letters stay different.
  EXPECT_FALSE(EqualsIgnoreCase("@", "`"));
  EXPECT_FALSE(EqualsIgnoreCase("[", "{"));
  EXPECT_EQ(ToLower("AbZ-09_\xc3\x89"), "abz-09_\xc3\x89");
}

TEST(HttpMessageTest, HeadersAreFoundReplacedAndRemovedByName) {
  Headers headers = {{"A", "1"}, {"B", "2"}, {"a", "3"}};
  ASSERT_NE(FindHeader(headers, "a"), nullptr);
  EXPECT_EQ(*FindHeader(headers, "a"), "1");
  EXPECT_EQ(FindHeader(headers, "c"), nullptr);
  SetHeader(headers, "a", "4");
  EXPECT_THAT(headers, ElementsAre(Pair("B", "2"), Pair("a", "4")));
  SetHeader(headers, "C", "5");
  RemoveHeader(headers, "b");
  EXPECT_THAT(headers, ElementsAre(Pair("a", "4"), Pair("C", "5")));
  RemoveHeader(headers, "none");
  EXPECT_EQ(headers.size(), 2U);
}

TEST(HttpMessageTest, TokensAndFieldValuesAreChecked) {
  for (const char* good : {"a", "A-Z_09", "!#$%&'*+-.^_`|~"}) EXPECT_TRUE(IsToken(good)) << good;
  for (const std::string& bad :
       {""s, "a b"s, "a:"s, "a\r"s, "\xc3\xa9"s, "(a)"s, "a\0"s, "\x7f"s}) {
    EXPECT_FALSE(IsToken(bad)) << bad;
  }
  for (const char* good : {"", "a b\tc", "caf\xc3\xa9", "\xff"}) EXPECT_TRUE(IsFieldValue(good));
  for (const std::string& bad : {"a\rb"s, "a\nb"s, "a\0b"s, "\x7f"s, "\x1b"s}) {
    EXPECT_FALSE(IsFieldValue(bad)) << bad;
  }
}

TEST(HttpMessageTest, PercentEscapesAreDecodedOrRefused) {
  std::string out;
  EXPECT_TRUE(PercentDecode("a%20b%2F%c3%A9%00", out));
  EXPECT_EQ(out, "a b/\xc3\xa9\0"s);
  EXPECT_TRUE(PercentDecode("a+b", out));
  EXPECT_EQ(out, "a+b");
  for (const char* bad : {"%", "%2", "a%", "%zz", "%2g", "%%20", "%u002e"}) {
    EXPECT_FALSE(PercentDecode(bad, out)) << bad;
  }
}

TEST(HttpMessageTest, EverythingButUnreservedCharactersIsEncoded) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("a b/%\xc3\xa9\0"s), "a%20b%2F%25%C3%A9%00");
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every.push_back(static_cast<char>(byte));
  std::string back;
  EXPECT_TRUE(PercentDecode(PercentEncode(every), back));
  EXPECT_EQ(back, every);
}

TEST(HttpMessageTest, J37_PairsAreDecodedInOrderWithDuplicates) {
  EXPECT_THAT(ParsePairs("b=2&a=1+1&a=%31%2b&=x&flag&c="),
              ElementsAre(Pair("b", "2"), Pair("a", "1 1"), Pair("a", "1+"), Pair("", "x"),
                          Pair("flag", ""), Pair("c", "")));
  EXPECT_THAT(ParsePairs(""), IsEmpty());
  EXPECT_THAT(ParsePairs("&&a=1&"), ElementsAre(Pair("a", "1")));
  EXPECT_THAT(ParsePairs("a=b=c"), ElementsAre(Pair("a", "b=c")));
  EXPECT_THAT(ParsePairs("a=%zz"), ElementsAre(Pair("a", "%zz")));
}

TEST(HttpMessageTest, PairsAreCountedAsTheyWouldBeTakenApart) {
  for (const char* query : {"", "&", "a", "a&", "&a", "a&&b", "a=1&b=2&a=3", "=&=", ";;"}) {
    EXPECT_EQ(CountPairs(query), ParsePairs(query).size()) << query;
  }
}

}  // namespace
}  // namespace recourse::http_message_test
