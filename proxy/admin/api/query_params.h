// Values of parameters, as the admin API takes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace recourse {

// Decimal digits and nothing else.
inline bool ParseNumber(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace recourse
