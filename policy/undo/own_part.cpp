#include "policy/undo/own_part.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/template/may_be_null.h"
#include "policy/undo/call_sets.h"
#include "policy/undo/put_back.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

bool IsEmpty(const Json* value) {
  if (value == nullptr || value->kind == Json::Kind::kNull) return true;
  if (value->kind == Json::Kind::kString) return value->text.empty();
  return !value->is_scalar() && value->items.empty() && value->members.empty();
}

// Of what nobody has touched also nothing stays the kind of nothing that it is.
bool IsSame(const Json* a, const Json* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return CanonicalJson(*a) == CanonicalJson(*b);
}

std::string PlainText(const Json& scalar) {
  std::string plain;
  bool is_markup = false;
  for (const char c : ScalarText(scalar)) {
    if (c == '<') is_markup = true;
    const bool is_blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!is_markup && !is_blank) plain.push_back(c);
    if (c == '>') is_markup = false;
  }
  return ToLower(plain);
}

bool IsDate(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  if (text.size() < kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !is_digit : text[i] != '-') return false;
  }
  return true;
}

bool AnyLeaf(const Json& value, auto&& holds) {
  if (value.is_scalar()) return holds(value);
  return std::ranges::any_of(value.items, [&](const Json& item) { return AnyLeaf(item, holds); }) ||
         std::ranges::any_of(value.members, [&](const Json::Member& member) {
           return AnyLeaf(member.second, holds);
         });
}

bool IsScalarFormOf(const Json& set, const Json& shown) {
  if (CanonicalJson(set) == CanonicalJson(shown)) return true;
  const std::string said = PlainText(set), seen = PlainText(shown);
  return !said.empty() && (said == seen || (IsDate(said) && seen.starts_with(said)));
}

// Whether it is one of what was there, or of what was set.
bool IsKnownItem(const Json& item, const Json* before, const Json& set) {
  const auto is_it = [&](const Json& one) { return IsFormOf(one, &item); };
  if (IsArray(before) &&
      std::ranges::any_of(before->items, [&](const Json& one) { return IsSame(&one, &item); })) {
    return true;
  }
  return IsArray(&set) ? std::ranges::any_of(set.items, is_it) : AnyLeaf(set, is_it);
}

std::optional<std::uint64_t> CountIn(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return count;
}

std::string PlainName(std::string_view name) {
  std::string plain = ToLower(name);
  std::erase_if(plain, [](char c) { return c == '_' || c == '-'; });
  return plain;
}

bool IsOneOf(std::string_view name, auto&& names) {
  return std::ranges::find(names, PlainName(name)) != names.end();
}

// Which a backend counts up by one with each change.
bool IsCounter(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "version", "revision", "rev", "sequence", "generation", "lockversion"};
  return IsOneOf(name, kNames);
}

bool IsCountedOnce(std::string_view before, std::string_view after) {
  const auto was = CountIn(before), is = CountIn(after);
  return was && is && *is == *was + 1;
}

// What the backend itself sets at every change, whatever it is told.
bool IsServers(std::string_view name, const Json* before, const Json* shown) {
  static constexpr std::array<std::string_view, 20> kNames = {"etag",
                                                              "odata.etag",
                                                              "@odata.etag",
                                                              "changekey",
                                                              "resourceversion",
                                                              "updated",
                                                              "updatedat",
                                                              "updatedon",
                                                              "updatedtime",
                                                              "updateddatetime",
                                                              "modified",
                                                              "modifiedat",
                                                              "modifiedon",
                                                              "lastmodified",
                                                              "lastmodifiedat",
                                                              "lastupdated",
                                                              "lastupdatedat",
                                                              "lastmodifieddatetime",
                                                              "versiontoken",
                                                              "historyid"};
  if (before == nullptr || shown == nullptr) return false;
  if (IsOneOf(name, kNames)) return before->is_scalar() && shown->is_scalar();
  return IsCounter(name) && IsCountedOnce(ScalarText(*before), ScalarText(*shown));
}

enum class Reach : std::uint8_t {
  kUpdates,   // what it does not name stays: where it does not, nobody can tell who took it away
  kNames,     // the same of the thing itself, but it replaces what it names
  kReplaces,  // it takes away what it does not name
};

bool IsOwn(const Json* before, const Json* set, const Json* shown, std::string_view name,
           Reach reach);

// All three are objects.
bool AreOwn(const Json& before, const Json& set, const Json& shown, Reach reach) {
  const bool replaces = reach == Reach::kReplaces;
  for (const Json::Member& was : before.members) {
    if (shown.Find(was.first) != nullptr) continue;
    const Json* const told = set.Find(was.first);
    if (told == nullptr ? !replaces : !IsFormOf(*told, nullptr)) return false;
  }
  return std::ranges::all_of(shown.members, [&](const Json::Member& is) {
    const Json* const told = set.Find(is.first);
    if (told == nullptr && replaces && IsEmpty(&is.second)) return true;
    const Reach inside = reach == Reach::kNames ? Reach::kReplaces : reach;
    return IsOwn(before.Find(is.first), told, &is.second, is.first, inside);
  });
}

// Of a list. Where one of its items outlives a call that does not name it, the call adds: whatever
// else is missing by then somebody else has taken away.
bool AreOwnItems(const Json* before, const Json& set, const Json& shown) {
  const auto is_known = [&](const Json& item) { return IsKnownItem(item, before, set); };
  if (!std::ranges::all_of(shown.items, is_known)) return false;
  if (!IsArray(before)) return true;
  const auto outlives = [&](const Json& item) { return !IsKnownItem(item, nullptr, set); };
  const auto is_there = [&](const Json& was) {
    return std::ranges::any_of(shown.items, [&](const Json& is) { return IsSame(&was, &is); });
  };
  return std::ranges::none_of(shown.items, outlives) ||
         std::ranges::all_of(before->items, is_there);
}

bool IsOwn(const Json* before, const Json* set, const Json* shown, std::string_view name,
           Reach reach) {
  if (IsSame(before, shown)) return true;
  // Where the rest stays, an object that is all that was set has lost it.
  const bool has_rest = reach != Reach::kReplaces && IsObject(set) && IsObject(before);
  if (set != nullptr && ((!has_rest && IsSame(set, shown)) || IsSomehow(*set))) return true;
  if (IsServers(name, before, shown)) return true;
  if (set == nullptr) {
    if (!IsObject(before) || !IsObject(shown)) return false;
    static const Json kNothing{Json::Kind::kObject, {}, {}, {}};
    return AreOwn(*before, kNothing, *shown, Reach::kUpdates);
  }
  if (IsObject(set) && IsObject(shown) && IsObject(before)) {
    return AreOwn(*before, *set, *shown, reach);
  }
  if (has_rest && set->members.empty()) return false;
  if (IsArray(shown)) return AreOwnItems(before, *set, *shown);
  return IsFormOf(*set, shown);
}

// A place that the undo writes over, as the states and the call have it.
struct Written {
  std::string place;
  std::optional<Json> before, shown;
  const Json* set = nullptr;
};

bool IsAtOrAbove(std::string_view outer, std::string_view inner) {
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

const Json* SetBy(const Json& sets, const std::vector<KeptArgument>& arguments,
                  const std::string& place) {
  for (const auto& [argument, kept] : arguments) {
    if (kept != place) continue;
    if (const Json* const set = SetAt(sets, argument)) return set;
  }
  return SetAt(sets, place);
}

std::vector<Written> WrittenBy(const Tool& tool, const UndoRule& undo, const Json& sets,
                               const Snapshot& before, const Snapshot& shown) {
  RequestTemplate body;
  body.json = undo.request.json;
  body.form = undo.request.form;
  const std::vector<KeptArgument> arguments = KeptArguments(tool);
  std::vector<Written> found;
  for (const Selector& place : SelectorsOf(body)) {
    if (place.source != Selector::Source::kBeforeBody) continue;
    Written one{place.name, KeptAt(before, place.name), KeptAt(shown, place.name),
                SetBy(sets, arguments, place.name)};
    const bool is_left_out = IsUnlessNull(place) && one.set == nullptr &&
                             (!one.before || one.before->kind == Json::Kind::kNull);
    if (!is_left_out) found.push_back(std::move(one));
  }
  return found;
}

const Json* PartOf(const std::optional<Json>& value) { return value ? &*value : nullptr; }

// Whether the call names something of what is written over. What one that does not changes, only
// the backend knows.
bool SetsByName(const std::vector<Written>& written, std::string_view method) {
  return method == "PATCH" || method == "PUT" ||
         std::ranges::any_of(written, [](const Written& one) { return one.set != nullptr; });
}

// Whether a PUT may have taken away whatever it does not name.
bool TakesAway(const std::vector<Written>& written, bool replaces) {
  return replaces && std::ranges::none_of(written, [](const Written& one) {
           return one.set == nullptr && !IsEmpty(PartOf(one.shown));
         });
}

bool IsDenied(const Json& set, const Json* shown) {
  if (shown == nullptr || IsSomehow(set)) return false;
  if (!IsObject(&set) || !IsObject(shown)) return !IsFormOf(set, shown);
  return std::ranges::any_of(set.members, [&](const Json::Member& member) {
    return IsDenied(member.second, shown->Find(member.first));
  });
}

// Whether nothing of what the call sets has changed.
bool StandsAsBefore(const Json& set, const Json* before, const Json* now) {
  if (!IsObject(&set) || set.members.empty() || !IsObject(before) || !IsObject(now)) {
    return IsSame(before, now);
  }
  return std::ranges::all_of(set.members, [&](const Json::Member& member) {
    return StandsAsBefore(member.second, before->Find(member.first), now->Find(member.first));
  });
}

Json SetsBy(const CallValues& call) {
  return call.body == nullptr ? Json{Json::Kind::kObject, {}, {}, {}} : SetsOf(*call.body);
}

// A version that is counted tells how many writes there were.
void CountOnce(const Tool& tool, const Snapshot& before, Snapshot& shown) {
  const auto& version = tool.before->version;
  if (!version || version->source != Selector::Source::kBody) return;
  const std::string_view name =
      std::string_view(version->name).substr(version->name.rfind('/') + 1);
  const auto was = CountIn(before.version), is = CountIn(shown.version);
  if (IsCounter(name) && was && is && *is > *was + 1) shown.version = std::to_string(*was + 1);
}

}  // namespace

bool IsFormOf(const Json& set, const Json* shown) {
  if (IsSomehow(set)) return true;
  if (IsEmpty(&set) || IsEmpty(shown)) return IsEmpty(&set) && IsEmpty(shown);
  if (set.is_scalar() && shown->is_scalar()) return IsScalarFormOf(set, *shown);
  if (IsObject(&set) && IsObject(shown)) {
    return std::ranges::all_of(set.members, [&](const Json::Member& member) {
      return IsFormOf(member.second, shown->Find(member.first));
    });
  }
  if (IsArray(&set) && IsArray(shown)) {
    return set.items.size() == shown->items.size() &&
           std::ranges::all_of(shown->items,
                               [&](const Json& item) { return IsKnownItem(item, nullptr, set); });
  }
  const Json& whole = set.is_scalar() ? *shown : set;
  const Json& part = set.is_scalar() ? set : *shown;
  return AnyLeaf(whole, [&](const Json& leaf) {
    return set.is_scalar() ? IsFormOf(part, &leaf) : part.is_scalar() && IsFormOf(leaf, &part);
  });
}

bool ReplacesWhole(const Tool& tool, std::string_view method) {
  return method == "PUT" &&
         std::ranges::none_of(UndosOf(tool), [](const UndoRule* undo) { return undo->rest_stays; });
}

bool ShowsUnmade(const Tool& tool, std::string_view method, const CallValues& call,
                 const Snapshot& before, const Snapshot& now) {
  if (now.is_gone) return false;
  // What is deleted may still be there, marked as deleted.
  if (method == "DELETE") return HaveSamePlaces(before, now);
  const Json sets = SetsBy(call);
  const std::vector<KeptArgument> arguments = KeptArguments(tool);
  bool is_denied = false;
  for (const auto& [place, text] : now.places) {
    const Json* const set = SetBy(sets, arguments, place);
    if (set == nullptr) continue;
    const std::optional<Json> was = KeptAt(before, place), is = KeptAt(now, place);
    if (!StandsAsBefore(*set, PartOf(was), PartOf(is))) return false;
    is_denied = is_denied || IsDenied(*set, PartOf(is));
  }
  return is_denied;
}

Snapshot OwnPart(const Tool& tool, const UndoRule& undo, std::string_view method,
                 const CallValues& call, const Snapshot& before, const Snapshot& planned,
                 Snapshot shown) {
  if (shown.is_gone || planned.is_gone || !tool.before) return shown;
  const Json sets = SetsBy(call);
  const std::vector<Written> written = WrittenBy(tool, undo, sets, before, shown);
  if (written.empty() || !SetsByName(written, method)) return shown;
  const bool replaces = ReplacesWhole(tool, method);
  const bool takes_away = TakesAway(written, replaces);
  // By a patch of paths (RFC 6902): each value replaces what is there.
  std::vector<std::string> put;
  if (call.body != nullptr && IsPatchOfPaths(*call.body)) AddPathsOf(*call.body, put);
  const auto reach_at = [&](const Written& one) {
    const bool is_put =
        std::ranges::any_of(put, [&](const auto& path) { return IsAtOrAbove(path, one.place); });
    if (replaces || is_put) return Reach::kReplaces;
    if (method != "PUT") return Reach::kUpdates;
    return one.place.empty() ? Reach::kNames : Reach::kReplaces;
  };
  for (std::size_t i = 0; i < std::min(planned.places.size(), shown.places.size()); ++i) {
    const auto& [place, text] = planned.places[i];
    const bool is_own = std::ranges::all_of(written, [&](const Written& one) {
      if (!IsAtOrAbove(place, one.place)) return true;
      if (takes_away && one.set == nullptr && IsEmpty(PartOf(one.shown))) return true;
      const std::string_view name = std::string_view(one.place).substr(one.place.rfind('/') + 1);
      return IsOwn(PartOf(one.before), one.set, PartOf(one.shown), name, reach_at(one));
    });
    if (!is_own) shown.places[i].second = text;
  }
  CountOnce(tool, before, shown);
  return shown;
}

}  // namespace recourse
