// What is said behind a place of a state that may have nothing there.
#pragma once

#include <string_view>

#include "policy/template/template.h"

namespace recourse {

// In `keep`: "body#/blocks or null" is null where the answer has nothing there.
inline constexpr std::string_view kOrNull = " or null";

// In JSON: "{before.body#/blocks unless null}" is left out where that was null and the call does
// not set what the body names so. Fields of forms, which have no null, are always.
inline constexpr std::string_view kUnlessNull = " unless null";

// Takes the words off, if they are there.
inline bool TakeOff(std::string_view words, std::string_view& text) {
  if (!text.ends_with(words)) return false;
  text.remove_suffix(words.size());
  return true;
}

inline bool IsOrNull(const Selector& place) { return place.text.ends_with(kOrNull); }
inline bool IsUnlessNull(const Selector& place) { return place.text.ends_with(kUnlessNull); }

}  // namespace recourse
