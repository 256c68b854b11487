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
constexpr PointRange kHiddenPoints[] = {
    {0x0080, 0x009f},  // C1 controls, among them the one-byte escape sequences
    {0x061c, 0x061c},  // direction marks, here and below
    {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff},  // byte order mark
};

// The code point that begins at `text`, of two or three bytes; 0 when it is neither.
std::uint32_t ShortCodePoint(std::string_view text, std::size_t& size) {
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
    const std::uint32_t point = ShortCodePoint(text, size);
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
