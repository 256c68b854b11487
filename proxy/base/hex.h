// Hexadecimal digits.
#pragma once

namespace recourse {

inline constexpr char kHexDigits[] = "0123456789abcdef";

// The value of a digit of either case; -1: it is none.
constexpr int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace recourse
