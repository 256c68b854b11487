#include "policy/template/snapshot.h"

#include <algorithm>

#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

// Whether `inner` is `outer` or a place in it.
bool LiesIn(std::string_view inner, std::string_view outer) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

bool IsSameJson(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto left = ParseJson(a), right = ParseJson(b);
  return left && right && CanonicalJson(*left) == CanonicalJson(*right);
}

}  // namespace

std::optional<Json> KeptAt(const Snapshot& state, std::string_view pointer) {
  for (const auto& [place, text] : state.places) {
    if (!LiesIn(pointer, place)) continue;
    const auto value = ParseJson(text);
    const Json* const at = value ? AtPointer(*value, pointer.substr(place.size())) : nullptr;
    if (at != nullptr) return *at;
  }
  return std::nullopt;
}

std::optional<std::string> KeptTextAt(const Snapshot& state, std::string_view pointer) {
  for (const auto& [place, text] : state.places) {
    if (!LiesIn(pointer, place)) continue;
    const auto span = FindJsonSpan(text, pointer.substr(place.size()));
    if (span) return text.substr(span->at, span->size);
  }
  return std::nullopt;
}

bool HaveSamePlaces(const Snapshot& a, const Snapshot& b) {
  return a.is_gone == b.is_gone &&
         std::ranges::equal(a.places, b.places, [](const auto& one, const auto& other) {
           return one.first == other.first && IsSameJson(one.second, other.second);
         });
}

Drift DriftOf(const Snapshot& before, const Snapshot& ours, const Snapshot& now) {
  const bool tells = !ours.version.empty() && !now.version.empty();
  const bool is_ours = HaveSamePlaces(ours, now) && (!tells || ours.version == now.version);
  if (is_ours) return Drift::kUnchanged;
  return HaveSamePlaces(before, now) ? Drift::kRestored : Drift::kChanged;
}

bool IsStrongTag(std::string_view version) {
  // Two lines of the field read as one with a quote in its middle.
  return version.size() >= 2 && version.front() == '"' &&
         version.find('"', 1) == version.size() - 1;
}

}  // namespace recourse
