// What is asked of values that were seen, whatever is inferred from them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "policy/suggest/sighting.h"

namespace recourse {

inline const SeenValue* ValueAt(const std::vector<SeenValue>& values, std::string_view place) {
  const auto at = std::ranges::find(values, place, &SeenValue::place);
  return at == values.end() ? nullptr : &*at;
}

// Whether it may be the name of one thing.
inline bool IsName(const SeenValue& value) {
  return value.kind == ValueKind::kWord || value.kind == ValueKind::kNumber ||
         value.kind == ValueKind::kOpaque;
}

// Few of many may be so by chance.
inline bool IsMany(std::size_t part, std::size_t whole) { return part * 5 > whole; }

// "id" of "body#/id"; empty: it is below another member.
inline std::string_view MemberOf(std::string_view place) {
  static constexpr std::string_view kTop = "body#/";
  if (!place.starts_with(kTop)) return {};
  place.remove_prefix(kTop.size());
  return place.find_first_of("/~") == std::string_view::npos ? place : std::string_view();
}

inline std::string_view LastToken(std::string_view place) {
  return place.substr(place.rfind('/') + 1);
}

inline bool ComesFirst(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

}  // namespace recourse
