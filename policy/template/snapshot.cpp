#include "policy/template/snapshot.h"

#include <algorithm>
#include <cstdint>

#include "proxy/base/http/http_message.h"
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

constexpr std::string_view kWeak = "W/";

bool IsWeakTag(std::string_view version) {
  return version.starts_with(kWeak) && IsStrongTag(version.substr(kWeak.size()));
}

// What it names between its quotes, of a tag.
std::string_view WithoutWeakness(std::string_view version) {
  if (IsWeakTag(version)) version.remove_prefix(kWeak.size());
  return IsStrongTag(version) ? version.substr(1, version.size() - 2) : version;
}

// Between a coding and its tag: no field of an answer has one, so no version that came as it is,
// be it a list of tags, is taken for the two.
constexpr char kBehindCoding = '\n';

// "gzip" of what VersionByTag made of it and a tag.
std::string_view CodingIn(std::string_view version) {
  const auto end = version.find(kBehindCoding);
  if (end == std::string_view::npos) return {};
  const std::string_view tag = version.substr(end + 1);
  return IsStrongTag(tag) || IsWeakTag(tag) ? version.substr(0, end) : std::string_view();
}

// What the version says of the content itself, whatever its coding; nullopt: nothing. One tag for
// several codings is a weak one (RFC 9110, section 8.8.1); a strong one is of its coding.
std::optional<std::string_view> ContentNamed(std::string_view version) {
  const std::string_view coding = CodingIn(version), tag = TagOf(version);
  const std::string_view opaque = WithoutWeakness(tag);
  if (coding.empty()) return opaque;
  if (opaque.ends_with(coding)) {
    const std::string_view named = opaque.substr(0, opaque.size() - coding.size());
    const auto last = named.find_last_not_of("-;+:");
    if (last != std::string_view::npos && last + 1 < named.size()) return named.substr(0, last + 1);
  }
  return IsWeakTag(tag) ? std::optional(opaque) : std::nullopt;
}

// "v" and 7 of "v7". Seconds since 1970 have ten digits.
std::optional<std::pair<std::string_view, std::uint64_t>> CountedIn(std::string_view version) {
  constexpr std::size_t kDigitsMax = 9;
  const auto content = ContentNamed(version);
  if (!content) return std::nullopt;
  constexpr std::string_view kDigits = "0123456789";
  const auto first = std::min(content->find_first_of(kDigits), content->size());
  const std::string_view digits = content->substr(first);
  if (digits.empty() || digits.size() > kDigitsMax ||
      digits.find_first_not_of(kDigits) != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t count = 0;
  for (const char c : digits) count = 10 * count + static_cast<std::uint64_t>(c - '0');
  return std::pair(content->substr(0, first), count);
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
  const bool is_ours =
      HaveSamePlaces(ours, now) && MatchVersions(ours.version, now.version) != VersionMatch::kOther;
  if (is_ours) return Drift::kUnchanged;
  return HaveSamePlaces(before, now) ? Drift::kRestored : Drift::kChanged;
}

bool IsStrongTag(std::string_view version) {
  // Two lines of the field read as one with a quote in its middle.
  return version.size() >= 2 && version.front() == '"' &&
         version.find('"', 1) == version.size() - 1;
}

std::string VersionByTag(std::string_view tag, std::string_view coding) {
  std::string name = ToLower(coding);
  std::erase_if(name, [](char c) { return c == ' ' || c == '\t'; });
  if (name.starts_with("x-")) name.erase(0, 2);  // section 8.4.1.3
  const bool is_coded = !name.empty() && name != "identity";
  const bool is_tag = IsStrongTag(tag) || IsWeakTag(tag);
  return is_coded && is_tag ? name + kBehindCoding + std::string(tag) : std::string(tag);
}

std::string_view TagOf(std::string_view version) {
  const std::string_view tag = version.substr(CodingIn(version).size());
  return tag.size() == version.size() ? version : tag.substr(1);
}

VersionMatch MatchVersions(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return VersionMatch::kUnknown;
  const bool is_same_coding = CodingIn(a) == CodingIn(b);
  const auto one = is_same_coding ? WithoutWeakness(TagOf(a)) : ContentNamed(a);
  const auto other = is_same_coding ? WithoutWeakness(TagOf(b)) : ContentNamed(b);
  if (!one || !other) return VersionMatch::kUnknown;
  return *one == *other ? VersionMatch::kSame : VersionMatch::kOther;
}

bool IsNextVersion(std::string_view earlier, std::string_view later) {
  const auto was = CountedIn(earlier), is = CountedIn(later);
  return was && is && was->first == is->first && is->second == was->second + 1;
}

}  // namespace recourse
