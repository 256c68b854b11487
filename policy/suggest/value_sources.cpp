#include "policy/suggest/value_sources.h"

#include <algorithm>
#include <set>

#include "policy/suggest/seen_values.h"
#include "policy/uri/opposites.h"

namespace recourse {

bool AreCalledAlike(std::string_view member, std::string_view place) {
  const auto some = WordsOf(member);
  const auto others = WordsOf(place.substr(place.find_last_of("/.") + 1));
  return !some.empty() && !others.empty() && some.front() == others.front();
}

std::optional<std::string> ValueSources::Of(
    const std::vector<LaterCall>& pairs, std::string_view called,
    const std::function<std::optional<std::uint64_t>(const LaterCall&)>& value_of) const {
  std::set<std::string> sources;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto value = value_of(pairs[i]);
    if (!value) return std::nullopt;
    std::set<std::string> own;
    const Sighting& made = seen_[pairs[i].made];
    const SeenValue* ref = ValueAt(made.answer, ref_place_);
    if (ref != nullptr && ref->hash == *value) own.insert("external_ref");
    for (std::size_t s = 0; s < tool_.segments.size(); ++s) {
      if (!NamesOne(tool_.segments[s]) || made.path[s].hash != *value) continue;
      own.insert("path." + std::string(CaptureName(tool_.segments[s])));
    }
    for (const SeenValue& sent : made.body) {
      if (sent.hash == *value) own.insert(sent.place);
    }
    if (i == 0) sources = std::move(own);
    std::erase_if(sources, [&](const auto& source) { return i > 0 && !own.contains(source); });
  }
  if (sources.empty()) return std::nullopt;
  if (sources.size() == 1) return *sources.begin();
  const auto is_alike = [&](const auto& source) { return AreCalledAlike(called, source); };
  if (std::ranges::count_if(sources, is_alike) == 1) {
    return *std::ranges::find_if(sources, is_alike);
  }
  if (sources.contains("external_ref")) return "external_ref";
  return *std::ranges::min_element(sources, ComesFirst);
}

std::optional<std::string> ValueSources::PathFor(const SeenTool& later,
                                                 const std::vector<LaterCall>& pairs) const {
  if (later.IsMcp()) return later.segments.front();
  std::string path;
  for (std::size_t s = 0; s < later.segments.size(); ++s) {
    path += '/';
    if (!NamesOne(later.segments[s])) {
      path += later.segments[s];
      continue;
    }
    const auto source = Of(pairs, {}, [&](const LaterCall& pair) {
      return std::optional(seen_[pair.later].path[s].hash);
    });
    if (!source) return std::nullopt;
    path += "{" + *source + "}";
  }
  return path;
}

}  // namespace recourse
