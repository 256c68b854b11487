#include "policy/uri/twins.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/model/tool_names.h"
#include "policy/uri/letters.h"

namespace recourse::twins_test {
namespace {

const std::string kNul("\0", 1);

struct Case {
  std::string name, other;
};

void ExpectTwins(NameIn where, const std::vector<Case>& cases, bool are_twins) {
  for (const auto& [name, other] : cases) {
    EXPECT_EQ(AreTwins(where, name, other), are_twins) << ShownName(other);
    EXPECT_EQ(AreTwins(where, other, name), are_twins) << ShownName(other);
  }
}

TEST(TwinsTest, MembersOfJson) {
  ExpectTwins(NameIn::kJson,
              {{"dry_run", "dry_run"},
               {"dry_run", "DRY_RUN"},
               {"dry_run", "dryRun"},
               {"skip", "\xc5\xbf\xe2\x84\xaaip"},  // long s, Kelvin sign
               {"id",
                "\xc4\xb1"
                "d"},  // dotless i
               {"dry_run", "dry_run" + kNul + "x"},
               {"dry_run", "dry\xe2\x80\x8b_run"},  // zero width
               {"amount",
                "am\xff"
                "ount"},
               {"\xc3\xa9t\xc3\xa9", "\xc3\x89T\xc3\x89"}},
              true);
  ExpectTwins(NameIn::kJson,
              {{"id", "_id"},
               {"id", "ids"},
               {"dry_run", "dry.run"},
               {"dry_run", "dry_run[x]"},
               {"\xe9\x87\x91", "\xe5\x90\x8d"},
               {"gr\xc3\xb6\xc3\x9f"
                "e",
                "gr\xc3\xbc\xc3\x9f"
                "e"},
               {"", "a"}},
              false);
}

TEST(TwinsTest, FieldsOfFormsAndQueries) {
  ExpectTwins(NameIn::kForm,
              {{"dry_run", "dry.run"},
               {"dry_run", "dry run"},
               {"dry_run", "dry[run"},
               {"dry_run", "  dry_run"},
               {"dry_run", "dry_run" + kNul + "[x]"},
               {"dry_run", "dry_run[]"},
               {"dry_run", "dry_run[x]"},
               {"dry_run", "dry.run[x][y]"},
               {"dry_run", "!dry_run"},
               {"filter[a]", "filter"},
               {"filter[a]", "filter.a"},
               {"filter[a]", "filter[a][b]"},
               {"_method", ".method"}},
              true);
  ExpectTwins(NameIn::kForm,
              {{"filter[a]", "filter[b]"},
               {"run", "dry[run]"},
               {"ref", "refs"},
               {"method", "_method"},
               {"ref", "filter[ref]"}},
              false);
}

TEST(TwinsTest, ANameOfManyLevelsIsReadInLittleTime) {
  const std::string deep = "ask_sum" + std::string(8'000'000, '[');
  EXPECT_TRUE(AreTwins(NameIn::kForm, "ask_sum", deep));
  EXPECT_FALSE(AreTwins(NameIn::kForm, "ask", deep));
}

TEST(TwinsTest, FieldsOfAHeader) {
  ExpectTwins(NameIn::kHeader, {{"X-Run", "x_run"}, {"X-Run", "X.Run"}, {"X-Run", "X-RUN"}}, true);
  ExpectTwins(NameIn::kHeader, {{"X-Run", "XRun"}, {"X-Run", "X-Runs"}}, false);
}

TEST(TwinsTest, LettersBeyondAsciiOfWhichReadersMakeAscii) {
  EXPECT_EQ(SkeletonOf(NameIn::kPath, "\xef\xbc\xa4\xef\xbd\x85l"), "del");  // fullwidth
  EXPECT_EQ(SkeletonOf(NameIn::kPath, "\xf0\x9d\x90\x9d\xc4\xb0"), "di");    // bold, dotted I
  EXPECT_EQ(SkeletonOf(NameIn::kPath, "\xef\xac\x81x"), "fix");              // ligature
  EXPECT_EQ(SkeletonOf(NameIn::kPath, "\xd0\x96"), "\xd0\xb6");
  for (char32_t point = 0x80; point < 0x110000; ++point) {
    const auto ascii = AsciiOf(point);
    for (const char c : ascii) ASSERT_TRUE(c >= ' ' && c < '\x7f') << ShownName(ascii);
    if (point >= 0xd800 && point < 0xe000) continue;
    std::string text;
    AppendPoint(text, point);
    std::string_view rest = text;
    ASSERT_EQ(TakePoint(rest), point);
    ASSERT_TRUE(rest.empty());
  }
}

TEST(TwinsTest, PointsOfBrokenTextAreTakenByteByByte) {
  for (const std::string bad :
       {"\xc0\xae", "\xe2\x80", "\xf5\x80\x80\x80", "\x80", "\xe0\x80\x80"}) {
    std::string_view rest = bad;
    EXPECT_EQ(TakePoint(rest), kNoPoint);
    EXPECT_EQ(rest.size(), bad.size() - 1);
  }
}

TEST(TwinsTest, ANameIsShownInAscii) {
  EXPECT_EQ(ShownName("dry\xe2\x80\x8b_run\xff" + kNul), "dry<U+200B>_run<FF><U+0000>");
  EXPECT_EQ(ShownName(std::string(500, 'a')).size(), 99u);
}

TEST(TwinsTest, McpNamesAreLoose) {
  EXPECT_EQ(LooseMcpName(" Delete-Order " + kNul + "x"), "delete_order");
  EXPECT_EQ(LooseMcpName("shop.delete_*"), "shop_delete_*");
  EXPECT_EQ(WithoutMcpNamespace("functions_x"), "x");
  EXPECT_EQ(WithoutMcpNamespace("mcp__shop__delete"), "delete");
  EXPECT_EQ(WithoutMcpNamespace("mcp__shop"), "");
  EXPECT_EQ(WithoutMcpNamespace("delete"), "delete");
}

}  // namespace
}  // namespace recourse::twins_test
