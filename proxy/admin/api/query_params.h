// Values of parameters, as the admin API takes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "filters/ledger/model/event.h"

namespace recourse {

// Decimal digits and nothing else.
inline bool ParseNumber(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "CLAIMED, APPROVED, ...": what `phase` accepts, in any case.
inline std::string PhaseNames() {
  std::string names;
  for (int i = 1; i < kPhaseCount; ++i) {
    names.append(names.empty() ? "" : ", ").append(NameOf(static_cast<Phase>(i)));
  }
  return names;
}

}  // namespace recourse
