// Values of parameters, as the admin API takes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/row_id.h"

namespace recourse {

// Decimal digits and nothing else.
inline bool ParseNumber(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// The id of an operation, an event or a flow.
inline constexpr std::string_view kIdForm = "an id such as 17 or 42.17";
inline bool ParseId(std::string_view text, std::uint64_t& out) {
  const auto id = ParseRowId(text);
  if (id) out = *id;
  return id.has_value();
}
inline constexpr std::string_view kPlaceForm = "what an earlier answer gave to go on from";
// A place in the log. A number past every row of a stream is that stream's end.
inline bool ParsePlace(std::string_view text, std::uint64_t& out) {
  if (ParseId(text, out)) return true;
  if (!ParseNumber(text, out)) return false;
  out = kRowNumberMax;
  return true;
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
