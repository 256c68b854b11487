// Which bytes may stand where in a head. One table for the reader and the writer of heads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace recourse {

enum CharClass : std::uint8_t {
  kCharToken = 1,   // RFC 9110 5.6.2
  kCharTarget = 2,  // in a request target
  kCharHost = 4,    // letter, digit or hyphen
  kCharDigit = 8,
};

inline constexpr std::array<std::uint8_t, 256> kCharTable = [] {
  std::array<std::uint8_t, 256> table{};
  constexpr std::string_view kTokenOthers = "!#$%&'*+-.^_`|~";
  // What neither RFC 3986 allows nor clients leave bare. '#' and '\' end or split a path for some
  // readers. The braces, '|', '^' and '`' are no better by the grammar, but WHATWG URLs keep them.
  constexpr std::string_view kNotInTarget = "\"#<>\\";
  for (unsigned byte = 0x21; byte < 0x7f; ++byte) {
    const char c = static_cast<char>(byte);
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool token = digit || letter || kTokenOthers.find(c) != std::string_view::npos;
    unsigned classes = 0;
    if (token) classes |= kCharToken;
    if (kNotInTarget.find(c) == std::string_view::npos) classes |= kCharTarget;
    if (digit || letter || c == '-') classes |= kCharHost;
    if (digit) classes |= kCharDigit;
    table[byte] = static_cast<std::uint8_t>(classes);
  }
  return table;
}();

constexpr bool CharIs(char c, CharClass char_class) {
  return (kCharTable[static_cast<unsigned char>(c)] & char_class) != 0;
}

// True for the empty text.
constexpr bool EachCharIs(std::string_view text, CharClass char_class) {
  return std::all_of(text.begin(), text.end(),
                     [char_class](char c) { return CharIs(c, char_class); });
}

}  // namespace recourse
