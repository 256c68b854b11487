// What a rendered request carries for Recourse itself until it is sent: fields with names that no
// field of HTTP has.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/http_message.h"

namespace recourse {

// Of a settle request: what the element has that is looked for, one for each test, in their order.
inline constexpr std::string_view kWhereTerm = ":where";
// Of an undo request of a tool that has several: which one, by its number.
inline constexpr std::string_view kUndoTerm = ":undo";

// Of the request that has read the state before a write: each place that the write sets.
inline constexpr std::string_view kSetsTerm = ":sets";

inline std::vector<std::string> TermsOf(const Headers& fields, std::string_view name) {
  std::vector<std::string> terms;
  for (const Header& field : fields) {
    if (field.first == name) terms.push_back(field.second);
  }
  return terms;
}

inline void DropTerms(Headers& fields) {
  std::erase_if(fields, [](const Header& field) { return field.first.starts_with(':'); });
}

}  // namespace recourse
