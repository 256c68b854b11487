#include "proxy/cli/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace recourse::table_test {
namespace {

using Kind = Column::Kind;
constexpr Column kColumns[] = {
    {"FLOW", 8, Kind::kWhole, 0, Column::Side::kRight},
    {"CHANGED", 24, Kind::kTime},
    {"PHASE", 11, Kind::kWhole},
    {"FLOW ID", 12, Kind::kExtra, 9},
    {"REASON", 10, Kind::kText, 8},
};
const std::vector<std::string> kCells{"7", "2026-11-26T10:03:48.282Z", "UNDONE", "trace-4bf92f35",
                                      "the customer left"};

std::string TextOf(std::vector<std::vector<std::string>> rows, const TableLook& look) {
  Table table(kColumns);
  for (auto& row : rows) table.Row(std::move(row));
  return table.Take(look);
}

// At a terminal so wide.
std::string TextAt(std::size_t columns) { return TextOf({kCells}, {columns, false}); }

std::size_t WidestOf(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto characters = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
    widest = std::max(widest, static_cast<std::size_t>(characters));
  }
  return widest;
}

TEST(TableTest, ColumnsAreAsWideAsWhatStandsInThem) {
  const std::string whole =
      "FLOW  CHANGED                   PHASE   FLOW ID         REASON\n"
      "   7  2026-11-26T10:03:48.282Z  UNDONE  trace-4bf92f35  the customer left\n";
  EXPECT_EQ(TextOf({kCells}, {}), whole);
  EXPECT_EQ(TextAt(73), whole);
  EXPECT_EQ(TextAt(200), whole);
  EXPECT_EQ(TextOf({{"7", "", "OPEN", "a", "b"}, {"12345", "", "UNDONE", "a", "b"}}, {80, false}),
            " FLOW  CHANGED  PHASE   FLOW ID  REASON\n"
            "    7           OPEN    a        b\n"
            "12345           UNDONE  a        b\n");
}

TEST(TableTest, TextsAreCutWhereWhatIsWholeLeavesNoRoom) {
  EXPECT_EQ(TextAt(64),
            "FLOW  CHANGED                   PHASE   FLOW ID      REASON\n"
            "   7  2026-11-26T10:03:48.282Z  UNDONE  trace-4bf9…  the custom…\n");
  EXPECT_EQ(TextAt(58),
            "FLOW  CHANGED               PHASE   FLOW ID     REASON\n"
            "   7  2026-11-26T10:03:48Z  UNDONE  trace-4bf…  the custo…\n");
}

TEST(TableTest, WhatIsExtraGoesBeforeOthersGetTooNarrow) {
  EXPECT_EQ(TextAt(54),
            "FLOW  CHANGED               PHASE   REASON\n"
            "   7  2026-11-26T10:03:48Z  UNDONE  the customer left\n");
  EXPECT_EQ(TextAt(42),
            "FLOW  CHANGED               PHASE   REASON\n"
            "   7  2026-11-26T10:03:48Z  UNDONE  the c…\n");
}

TEST(TableTest, EveryWidthFitsAndKeepsIdsTimesAndStatesWhole) {
  for (std::size_t columns = 40; columns < 90; ++columns) {
    const std::string text = TextAt(columns);
    EXPECT_LE(WidestOf(text), columns) << text;
    EXPECT_NE(text.find("   7  2026-11-26T10:03:48"), std::string::npos) << text;
    EXPECT_NE(text.find("Z  UNDONE  "), std::string::npos) << text;
  }
  EXPECT_EQ(TextAt(5), TextAt(40)) << "what is whole stays so, and the line goes on below";
}

TEST(TableTest, LaterRowsStandUnderTheFirstOnes) {
  Table table(kColumns);
  EXPECT_EQ(table.Take({}), "") << "nothing came, so there is nothing to head";
  table.Row({"7", "", "UNDONE", "a", "b"});
  EXPECT_EQ(table.Take({}),
            "FLOW  CHANGED  PHASE   FLOW ID  REASON\n   7           UNDONE  a        b\n");
  table.Row({"8", "", "OPEN", "a", "b"}, "  below\n");
  EXPECT_EQ(table.Take({}), "   8           OPEN    a        b\n  below\n");
}

TEST(TableTest, WhereRowsAreAwaitedTheTitlesComeFirstAndLeaveRoom) {
  Table table(kColumns);
  table.Expect();
  EXPECT_EQ(table.Take({}),
            "    FLOW  CHANGED                   PHASE        FLOW ID       REASON\n");
  EXPECT_EQ(table.Take({}), "");
  table.Row({"8", "2026-11-26T10:03:48.282Z", "OPEN", "a", "b"});
  EXPECT_EQ(table.Take({}), "       8  2026-11-26T10:03:48.282Z  OPEN         a             b\n");
}

TEST(TableTest, ACutNeverSplitsACharacter) {
  EXPECT_EQ(TextOf({{"1", "", "OPEN", "a", "ääääääääääääää"}}, {40, false}),
            "FLOW  CHANGED  PHASE  FLOW ID  REASON\n"
            "   1           OPEN   a        ääääääää…\n");
}

TEST(TableTest, StatesHaveColours) {
  EXPECT_NE(TextOf({kCells}, {80, true}).find("\033[35mUNDONE\033[0m  trace"), std::string::npos);
}

}  // namespace
}  // namespace recourse::table_test
