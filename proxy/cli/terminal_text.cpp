#include "proxy/cli/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace recourse {
namespace {

struct PointRange {
  std::uint32_t first, last;
};
// C1 controls, among them the one-byte escape sequences; marks of direction and ends of lines; and
// all that Unicode calls Default_Ignorable_Code_Point, with the blank of Braille.
constexpr PointRange kHiddenPoints[] = {
    {0x0080, 0x009f}, {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x061c, 0x061c},   {0x115f, 0x1160},
    {0x17b4, 0x17b5}, {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
    {0x2800, 0x2800}, {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
    {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

// The code point that begins at `text`, of two to four bytes; 0 when it is none.
std::uint32_t LongCodePoint(std::string_view text, std::size_t& size) {
  const auto byte = [text](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  if ((byte(0) & 0xe0) == 0xc0 && (byte(1) & 0xc0) == 0x80) {
    size = 2;
    return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
  }
  if ((byte(0) & 0xf0) == 0xe0 && (byte(1) & 0xc0) == 0x80 && (byte(2) & 0xc0) == 0x80) {
    size = 3;
    return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  }
  if ((byte(0) & 0xf8) == 0xf0 && (byte(1) & 0xc0) == 0x80 && (byte(2) & 0xc0) == 0x80 &&
      (byte(3) & 0xc0) == 0x80) {
    size = 4;
    return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 |
           (byte(3) & 0x3f);
  }
  return 0;
}

}  // namespace

std::string TerminalText(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
      continue;
    }
    std::size_t size = 1;
    const std::uint32_t point = LongCodePoint(text, size);
    const bool is_hidden = std::any_of(
        std::begin(kHiddenPoints), std::end(kHiddenPoints),
        [point](PointRange range) { return point >= range.first && point <= range.last; });
    if (is_hidden) {
      out += fmt::format("\\u{{{:x}}}", point);
    } else {
      out.append(text.substr(0, size));
    }
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace recourse
