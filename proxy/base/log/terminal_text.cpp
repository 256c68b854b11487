#include "proxy/base/log/terminal_text.h"

#include <fmt/format.h>

#include <cstdint>

#include "proxy/base/hidden_points.h"

namespace recourse {
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
    if (IsHidden(point)) {
      out += fmt::format("\\u{{{:x}}}", point);
    } else {
      out.append(text.substr(0, size));
    }
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace recourse
