// What a pure function has made of the latest short texts: most calls of a process carry the same
// few, and each is asked about several times.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>

#include "proxy/base/short_text.h"

namespace recourse {

// Of its size, its end and a few words before that, as std::hash takes longer over all of it than a
// look at one place does. Every bit counts: ids of calls that run at once differ in one digit.
inline std::size_t PlaceNumber(std::string_view text) {
  constexpr std::uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;
  constexpr std::size_t kSteps = 4;
  std::uint64_t number = text.size(), word = 0;
  const auto take = [&number](std::uint64_t each) {
    number = (number ^ each) * kOdd;
    number ^= number >> 32;
  };
  if (text.size() < sizeof word) {
    text.copy(reinterpret_cast<char*>(&word), sizeof word);
    take(word);
  } else {
    const std::size_t last = text.size() - sizeof word;
    for (std::size_t at = 0; at < last; at += std::max(sizeof word, last / kSteps)) {
      std::memcpy(&word, text.data() + at, sizeof word);
      take(word);
    }
    std::memcpy(&word, text.data() + last, sizeof word);
    take(word);
  }
  return static_cast<std::size_t>((number * kOdd) >> 32);
}

// Of the calling thread, made when it first asks and freed when it ends.
template <class Kept>
[[gnu::noinline]] Kept* MadeForThread() {
  thread_local const auto kept = std::make_unique<Kept>();
  return kept.get();
}

// make(text, with), of which each thread keeps some: `text` says which `with` it is. A text has one
// place; those that share it take turns. Threads that never ask have no room for it: as
// thread_local arrays these would be zeroed in every new thread.
template <auto kMake, std::size_t kBytesMax, std::size_t kPlaces, class... With>
auto LatestOf(std::string_view text, const With&... with) {
  struct Known {
    ShortText<kBytesMax> text;
    bool is_known = false;
    std::invoke_result_t<decltype(kMake), std::string_view, const With&...> value{};
  };
  if (text.size() > kBytesMax) return kMake(text, with...);
  using Kept = std::array<Known, kPlaces>;
  constinit thread_local Kept* latest = nullptr;
  if (latest == nullptr) latest = MadeForThread<Kept>();
  Known& known = (*latest)[PlaceNumber(text) % kPlaces];
  if (!known.is_known || known.text.view() != text) {
    known.value = kMake(text, with...);
    known.text.Set(text);
    known.is_known = true;
  }
  return known.value;
}

}  // namespace recourse
