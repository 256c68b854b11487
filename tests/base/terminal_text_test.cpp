#include "proxy/base/log/terminal_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace recourse::terminal_text_test {
namespace {

TEST(TerminalTextTest, WhatSteersATerminalIsEscapedAndTheRestKept) {  // D14
  const std::pair<std::string_view, std::string_view> kRows[] = {
      {"", ""},
      {"ord_1 \"x\"", "ord_1 \"x\""},
      {"Zo\xc3\xab \xe2\x82\xac \xf0\x9f\x98\x80", "Zo\xc3\xab \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"a\x1b[2Jb", "a\\x1b[2Jb"},
      {"a\r\nb\x7f", "a\\x0d\\x0ab\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\u{9b}31m"},
      {"\xe2\x80\xae"
       "evil",
       "\\u{202e}evil"},
      {"\xef\xbb\xbf", "\\u{feff}"},
      {"\xe2\x80", "\xe2\x80"},  // cut short: not a character, passed as it is
  };
  for (const auto& [text, expected] : kRows) EXPECT_EQ(TerminalText(text), expected);
}

std::string Utf8(std::uint32_t point) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(bits); };
  if (point < 0x800) return {byte(0xc0 | point >> 6), byte(0x80 | (point & 0x3f))};
  if (point < 0x10000) {
    return {byte(0xe0 | point >> 12), byte(0x80 | (point >> 6 & 0x3f)),
            byte(0x80 | (point & 0x3f))};
  }
  return {byte(0xf0 | point >> 18), byte(0x80 | (point >> 12 & 0x3f)),
          byte(0x80 | (point >> 6 & 0x3f)), byte(0x80 | (point & 0x3f))};
}

// Default_Ignorable_Code_Point of Unicode 15, first and last ones.
TEST(TerminalTextTest, WhatHasNoShapeIsMarked) {
  for (const std::uint32_t point :
       {0xadU,    0x34fU,   0x61cU,   0x115fU,  0x1160U,  0x17b4U,  0x17b5U,  0x180bU,  0x180eU,
        0x180fU,  0x200bU,  0x200dU,  0x200fU,  0x202aU,  0x202eU,  0x2060U,  0x2065U,  0x2066U,
        0x206fU,  0x2800U,  0x3164U,  0xfe00U,  0xfe0fU,  0xfeffU,  0xffa0U,  0xfff0U,  0xfff8U,
        0x1bca0U, 0x1bca3U, 0x1d173U, 0x1d17aU, 0xe0000U, 0xe0001U, 0xe007fU, 0xe01efU, 0xe0fffU}) {
    const std::string text = "a" + Utf8(point) + "b", marked = TerminalText(text);
    EXPECT_TRUE(marked.starts_with("a\\u{") && marked.ends_with("}b")) << point << ": " << marked;
  }
  for (const std::uint32_t point :
       {0xe9U, 0x115eU, 0x1161U, 0x2027U, 0xfdffU, 0x1f600U, 0xe1000U}) {
    EXPECT_EQ(TerminalText(Utf8(point)), Utf8(point)) << point;
  }
}

}  // namespace
}  // namespace recourse::terminal_text_test
