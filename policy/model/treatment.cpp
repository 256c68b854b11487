#include "policy/model/treatment.h"

#include <algorithm>
#include <vector>

#include "policy/model/places_read.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

bool Passes(const RouteMatch& match) {
  return match.tool != nullptr || match.unlisted != UnlistedRule::kDeny;
}

const std::vector<std::string>& UpgradesOf(const RouteMatch& match) {
  static const std::vector<std::string> kNone;
  return match.tool == nullptr ? kNone : match.tool->upgrades;
}

// The captured value that the policy knows by that name, as servers read it.
std::string Captured(const RouteMatch& match, std::string_view name) {
  std::string value;
  for (std::size_t i = 0; i < match.capture_count; ++i) {
    const auto& capture = match.captures[i];
    if (capture.name == name && !PercentDecode(capture.value, value)) value = capture.value;
  }
  return value;
}

bool HasSameValues(const RouteMatch& one, const RouteMatch& other) {
  const std::vector<Selector> places = PlacesRead(*one.tool);
  return std::ranges::all_of(places, [&](const Selector& place) {
    return place.source != Selector::Source::kPath ||
           Captured(one, place.name) == Captured(other, place.name);
  });
}

}  // namespace

bool IsTreatedAlike(const RouteMatch& one, const RouteMatch& other, Alike how) {
  if (one.effect != other.effect || Passes(one) != Passes(other)) return false;
  if (how == Alike::kByTool && one.tool != other.tool) return false;
  if (one.effect == Effect::kRead) return UpgradesOf(one) == UpgradesOf(other);
  if (one.tool != other.tool) return false;
  return one.tool == nullptr ? one.unlisted == other.unlisted : HasSameValues(one, other);
}

std::string TreatmentInWords(const Tool& tool) { return "tool " + tool.name; }

std::string TreatmentInWords(const RouteMatch& match) {
  if (match.tool != nullptr) return TreatmentInWords(*match.tool);
  return std::string(Passes(match) ? "an unlisted " : "a denied ") +
         (match.effect == Effect::kRead ? "read" : "write");
}

}  // namespace recourse
