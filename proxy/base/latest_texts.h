// What a pure function has made of the latest short texts: most calls of a process carry the same
// few, and each is asked about several times.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>
#include <type_traits>

#include "proxy/base/short_text.h"

namespace recourse {

// make(text, with), of which each thread keeps some: `text` says which `with` it is. A text has one
// place; those that share it take turns.
template <auto kMake, std::size_t kBytesMax, std::size_t kPlaces, class... With>
auto LatestOf(std::string_view text, const With&... with) {
  struct Known {
    ShortText<kBytesMax> text;
    bool is_known = false;
    std::invoke_result_t<decltype(kMake), std::string_view, const With&...> value{};
  };
  if (text.size() > kBytesMax) return kMake(text, with...);
  thread_local std::array<Known, kPlaces> latest;
  Known& known = latest[std::hash<std::string_view>()(text) % kPlaces];
  if (!known.is_known || known.text.view() != text) {
    known.value = kMake(text, with...);
    known.text.Set(text);
    known.is_known = true;
  }
  return known.value;
}

}  // namespace recourse
