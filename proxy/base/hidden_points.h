// Characters that a reader does not see, or that change how what follows is read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace recourse {

// The code point that begins at `text`, of two to four bytes; 0 when it is none.
inline std::uint32_t LongCodePoint(std::string_view text, std::size_t& size) {
  const auto byte = [text](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto follows = [&](std::size_t count) {
    for (std::size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return false;
    }
    return true;
  };
  if ((byte(0) & 0xe0) == 0xc0 && follows(1)) {
    size = 2;
    return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
  }
  if ((byte(0) & 0xf0) == 0xe0 && follows(2)) {
    size = 3;
    return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  }
  if ((byte(0) & 0xf8) == 0xf0 && follows(3)) {
    size = 4;
    return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 |
           (byte(3) & 0x3f);
  }
  return 0;
}

// C1 controls, among them the one-byte escape sequences; marks of direction and ends of lines; and
// all that Unicode calls Default_Ignorable_Code_Point, with the blank of Braille.
inline bool IsHidden(std::uint32_t point) {
  struct Range {
    std::uint32_t first, last;
  };
  static constexpr Range kHiddenPoints[] = {
      {0x0080, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c},
      {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},
      {0x2028, 0x202e},   {0x2060, 0x206f},   {0x2800, 0x2800},   {0x3164, 0x3164},
      {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfff8},
      {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
  };
  return std::any_of(
      std::begin(kHiddenPoints), std::end(kHiddenPoints),
      [point](const Range& range) { return point >= range.first && point <= range.last; });
}

}  // namespace recourse
