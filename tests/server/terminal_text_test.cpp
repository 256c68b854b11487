#include "proxy/cli/terminal_text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace recourse::terminal_text_test
