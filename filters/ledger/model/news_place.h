// Up to where somebody who follows a ledger has been told of its rows. A place in a log of one
// stream is the number of its last row. Of many streams, whose rows have no order of their own, it
// is the last row of each that wrote something lately, and when that was so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

struct NewsPlace {
  // By the database's clock; 0: the log is of one stream, and that of `told` is 0.
  std::int64_t at_ms = 0;
  // By stream: number of its last row that was told.
  std::map<std::uint32_t, std::uint64_t> told{};

  // Rows that are so much older than `at_ms` were told, whatever `told` lacks: no batch takes as
  // long to be committed.
  static constexpr std::int64_t kSettledMs = 60'000;

  static NewsPlace OfRow(std::uint64_t id) { return {.at_ms = 0, .told = {{0, id}}}; }
  std::uint64_t row() const { return told.empty() ? 0 : told.begin()->second; }

  bool operator==(const NewsPlace&) const = default;
};

// "17" or "42.17" of one stream, else "1790000000000:42.17,43.5".
std::string PrintNewsPlace(const NewsPlace& place);
// As JSON: 17, else the text.
std::string NewsPlaceJson(const NewsPlace& place);
// What PrintNewsPlace() gives; nullopt: anything else.
std::optional<NewsPlace> ParseNewsPlace(std::string_view text);

}  // namespace recourse
