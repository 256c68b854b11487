// Words of paths that are names of things: by what answers told before, and by how they look. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "policy/suggest/sighting.h"

namespace recourse {

// A word with one digit at its end, as b6 is; never the name of a version, as v1 is.
bool EndsInNumber(std::string_view word);

class ToldNames {
 public:
  // `seen` is ordered by time.
  explicit ToldNames(const std::vector<Sighting>& seen);

  // The place of the answer that told the segment of that depth first, before `call`; empty: none.
  std::string_view PlaceOf(const Sighting& call, std::size_t depth) const;
  // One answer is enough: that of what the segment stands below ("/bookings" of "/bookings/b6"), at
  // a place that is called like a name; of a word that ends in a number any of both.
  bool WasTold(const Sighting& call, std::size_t depth) const;

 private:
  struct Told {
    std::int64_t wall_ms = 0;
    std::string place;
  };
  // By backend, value and the path that was asked (0: any), and whether the place is called like a
  // name; the first one.
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t, bool>;
  const Told* Find(const Sighting& call, std::size_t depth, std::uint64_t asked,
                   bool is_named) const;

  std::map<Key, Told> told_;
};

}  // namespace recourse
