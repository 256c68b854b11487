// Ids: one text for each, and nothing else is read as one.
#include "filters/ledger/model/row_id.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace recourse::row_id_test {
namespace {

constexpr std::uint64_t kInFleet = PackRowId({.stream = 42, .number = 17});
constexpr RowId kLast{.stream = kRowStreamMax, .number = kRowNumberMax};

TEST(RowIdTest, StreamZeroIsLeftOut) {
  EXPECT_EQ(PackRowId({.stream = 0, .number = 17}), 17U);
  EXPECT_EQ(PrintRowId(17), "17");
  EXPECT_EQ(RowIdJson(17), "17");
  EXPECT_EQ(ParseRowId("17"), 17U);
  EXPECT_EQ(ParseRowId("0"), 0U);
}

TEST(RowIdTest, AnotherStreamStandsBeforeThePoint) {
  EXPECT_EQ(kInFleet, 42 * 68719476736 + 17);
  EXPECT_EQ(PrintRowId(kInFleet), "42.17");
  EXPECT_EQ(RowIdJson(kInFleet), "\"42.17\"");
  EXPECT_EQ(ParseRowId("42.17"), kInFleet);
  EXPECT_EQ(UnpackRowId(kInFleet), (RowId{.stream = 42, .number = 17}));
  EXPECT_EQ(ParseRowId("42.0"), PackRowId({.stream = 42}));
}

TEST(RowIdTest, TheLastIdFitsASignedColumn) {
  const std::uint64_t last = PackRowId(kLast);
  EXPECT_EQ(last, static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(UnpackRowId(last), kLast);
  EXPECT_EQ(PrintRowId(last), "134217727.68719476735");
  EXPECT_EQ(ParseRowId(PrintRowId(last)), last);
  EXPECT_EQ(ParseRowId("68719476735"), kRowNumberMax);
}

TEST(RowIdTest, EveryTextReadsBackAsItsId) {
  for (std::uint32_t stream : {0U, 1U, 9U, 1000U, kRowStreamMax}) {
    for (std::uint64_t number : {std::uint64_t{1}, std::uint64_t{4294967296}, kRowNumberMax}) {
      const std::uint64_t packed = PackRowId({.stream = stream, .number = number});
      EXPECT_EQ(ParseRowId(PrintRowId(packed)), packed);
    }
  }
}

// A packed number is no id: read as one, it would be a row of another stream.
TEST(RowIdTest, NothingElseIsAnId) {
  for (const std::string text : {"",
                                 ".",
                                 "42.",
                                 ".17",
                                 "0.17",
                                 "42.017",
                                 "042.17",
                                 "42.17.1",
                                 "42.17 ",
                                 " 42.17",
                                 "42. 17",
                                 "+17",
                                 "-17",
                                 "-0",
                                 "42.-17",
                                 "+42.17",
                                 "1e3",
                                 "0x11",
                                 "17a",
                                 "42,17",
                                 "134217728.1",
                                 "42.68719476736",
                                 "68719476736",
                                 "18446744073709551615",
                                 "18446744073709551616",
                                 "2886218022929"}) {
    EXPECT_EQ(ParseRowId(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseRowId(std::to_string(kInFleet)), std::nullopt);
}

TEST(RowIdTest, EarlierVersionsTookLeadingZeros) { EXPECT_EQ(ParseRowId("0017"), 17U); }

}  // namespace
}  // namespace recourse::row_id_test
