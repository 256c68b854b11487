#include "filters/ledger/model/news_place.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "filters/ledger/model/row_id.h"

namespace recourse {

std::string PrintNewsPlace(const NewsPlace& place) {
  if (place.at_ms == 0) return PrintRowId(place.row());
  std::string text = std::to_string(place.at_ms) + ':';
  for (const auto& [stream, number] : place.told) {
    if (text.back() != ':') text += ',';
    text += PrintRowId(PackRowId({.stream = stream, .number = number}));
  }
  return text;
}

std::string NewsPlaceJson(const NewsPlace& place) {
  return place.at_ms == 0 ? RowIdJson(place.row()) : '"' + PrintNewsPlace(place) + '"';
}

std::optional<NewsPlace> ParseNewsPlace(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const auto row = ParseRowId(text);
    return row ? std::optional(NewsPlace::OfRow(*row)) : std::nullopt;
  }
  NewsPlace place;
  const std::string_view at = text.substr(0, colon);
  const auto [end, error] = std::from_chars(at.data(), at.data() + at.size(), place.at_ms);
  if (error != std::errc() || end != at.data() + at.size() || place.at_ms <= 0) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const auto row = ParseRowId(rest.substr(0, comma));
    const RowId id = UnpackRowId(row.value_or(0));
    if (id.stream == 0 || !place.told.emplace(id.stream, id.number).second) return std::nullopt;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (rest.empty() && text.back() == ',') return std::nullopt;
  }
  return place;
}

}  // namespace recourse
