// The values of a call by their places, those of its path among them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "policy/suggest/seen_tools.h"

namespace recourse {

struct SeenField {
  std::uint64_t hash = 0;
  ValueKind kind = ValueKind::kWord;
};
using SeenFields = std::map<std::string, SeenField>;

inline SeenFields SeenFieldsOf(const Sighting& call, const SeenTool& tool) {
  SeenFields fields;
  for (std::size_t i = 0; i < tool.segments.size(); ++i) {
    if (!NamesOne(tool.segments[i])) continue;
    fields["path." + std::string(CaptureName(tool.segments[i]))] = {call.path[i].hash,
                                                                    ValueKind::kWord};
  }
  for (const auto* values : {&call.query, &call.body}) {
    for (const SeenValue& value : *values) fields[value.place] = {value.hash, value.kind};
  }
  return fields;
}

// The places at which they differ.
inline std::vector<std::string> Differing(const SeenFields& one, const SeenFields& other) {
  std::vector<std::string> places;
  for (const auto& [place, field] : one) {
    const auto at = other.find(place);
    if (at == other.end() || at->second.hash != field.hash) places.push_back(place);
  }
  for (const auto& [place, field] : other) {
    if (!one.contains(place)) places.push_back(place);
  }
  return places;
}

}  // namespace recourse
