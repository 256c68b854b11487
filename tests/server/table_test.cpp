#include "proxy/cli/table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace recourse::table_test {
namespace {

constexpr Column kColumns[] = {
    {"FLOW", 6, 4, Column::Side::kRight},
    {"CHANGED", 12, 8},
    {"PHASE", 9, 9},
    {"REASON", 10, 4},
};
const std::vector<std::string> kCells{"7", "2026-11-26T10", "UNDONE", "the customer left"};

std::size_t WidthOf(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }) - 1);
}

TEST(TableTest, WithoutATerminalNothingIsCut) {
  EXPECT_EQ(TableLine(kColumns, kCells, {}),
            "     7  2026-11-26T10  UNDONE     the customer left\n");
}

TEST(TableTest, ALineFitsTheTerminalAndSaysWhatItCut) {
  EXPECT_EQ(TableLine(kColumns, kCells, {40, false}), "     7  2026-11-26…  UNDONE     the cus…\n");
  for (std::size_t columns = 22; columns < 90; ++columns) {
    EXPECT_LE(WidthOf(TableLine(kColumns, kCells, {columns, false})), columns) << columns;
  }
  EXPECT_EQ(TableLine(kColumns, kCells, {51, false}), TableLine(kColumns, kCells, {}));
}

TEST(TableTest, ATerminalThatIsTooNarrowGetsWhatIsLeastOfEach) {
  EXPECT_EQ(TableLine(kColumns, kCells, {31, false}), "   7  2026-11…  UNDONE     the…\n");
  EXPECT_EQ(TableLine(kColumns, kCells, {5, false}), "   7  202…  UND…  the…\n");
}

TEST(TableTest, ACutNeverSplitsACharacter) {
  const std::vector<std::string> cells{"1", "ääääääääääääää", "OPEN", "ä"};
  EXPECT_EQ(TableLine(kColumns, cells, {32, false}), "   1  äääääää…  OPEN       ä\n");
}

TEST(TableTest, StatesHaveColours) {
  EXPECT_EQ(TableLine(kColumns, kCells, {60, true}),
            "     7  2026-11-26T10  \033[35mUNDONE\033[0m     the customer left\n");
}

}  // namespace
}  // namespace recourse::table_test
