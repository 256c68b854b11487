#include "policy/undo/call_sets.h"

#include <algorithm>
#include <utility>

#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

// A text that is no value of any call.
constexpr std::string_view kSomehow =
    "\x01"
    "somehow";

Json Somehow() { return Json{Json::Kind::kString, std::string(kSomehow), {}, {}}; }

bool IsIndex(std::string_view name) {
  return name == "-" ||
         (!name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; }));
}

// The names on the way to the place.
std::vector<std::string> NamesOf(std::string_view pointer) {
  std::vector<std::string> names;
  while (!pointer.empty()) {
    const auto end = std::min(pointer.find('/', 1), pointer.size());
    names.push_back(MemberName(pointer.substr(1, end - 1)));
    pointer.remove_prefix(end);
  }
  return names;
}

// Of an element: that its list gets it.
void Put(Json& root, const std::vector<std::string>& names, Json value) {
  Json* at = &root;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_last = i + 1 == names.size();
    if (IsIndex(names[i])) {
      const bool is_list = at->kind == Json::Kind::kNull || at->kind == Json::Kind::kArray;
      if (!is_last || !is_list || IsSomehow(value)) {
        *at = Somehow();
      } else {
        at->kind = Json::Kind::kArray;
        at->items.push_back(std::move(value));
      }
      return;
    }
    if (at->kind == Json::Kind::kNull) at->kind = Json::Kind::kObject;
    if (at->kind != Json::Kind::kObject) return void(*at = Somehow());
    auto member = std::ranges::find(at->members, names[i], &Json::Member::first);
    if (member == at->members.end()) {
      member = at->members.insert(member, Json::Member{names[i], Json()});
    }
    at = &member->second;
  }
  *at = std::move(value);
}

// "a[b][c]": a, b, c.
std::vector<std::string> NamesInForm(std::string_view name) {
  std::vector<std::string> names;
  const auto first = name.find('[');
  names.emplace_back(name.substr(0, first));
  name.remove_prefix(first);
  while (name.starts_with('[')) {
    const auto end = name.find(']');
    if (end == std::string_view::npos) return {};
    names.emplace_back(end == 1 ? std::string_view("-") : name.substr(1, end - 1));
    name.remove_prefix(end + 1);
  }
  return name.empty() && !names.front().empty() ? names : std::vector<std::string>();
}

Json SetsOfPatch(const Json& patch) {
  Json sets{Json::Kind::kObject, {}, {}, {}};
  for (const Json& item : patch.items) {
    const std::string_view op = TextOf(item, "op");
    if (op == "test") continue;
    const Json* const value = item.Find("value");
    const bool is_told = (op == "add" || op == "replace") && value != nullptr;
    Put(sets, NamesOf(TextOf(item, "path")), is_told ? *value : Somehow());
    if (op == "move") Put(sets, NamesOf(TextOf(item, "from")), Somehow());
  }
  return sets;
}

}  // namespace

bool IsPatchOfPaths(const Json& body) {
  return body.kind == Json::Kind::kArray && !body.items.empty() &&
         std::ranges::all_of(body.items, [](const Json& item) {
           return !TextOf(item, "op").empty() && IsObject(&item) && item.Find("path") != nullptr;
         });
}

void AddPathsOf(const Json& patch, std::vector<std::string>& places) {
  for (const Json& item : patch.items) {
    const std::string_view op = TextOf(item, "op");
    if (op == "test") continue;
    places.emplace_back(TextOf(item, "path"));
    if (op == "move") places.emplace_back(TextOf(item, "from"));
  }
}

Json SetsOf(const Json& body) {
  if (IsPatchOfPaths(body)) return SetsOfPatch(body);
  if (body.kind != Json::Kind::kObject) return body;
  Json sets{Json::Kind::kObject, {}, {}, {}};
  for (const Json::Member& member : body.members) {
    const bool is_nested = member.first.contains('[');
    const auto names = is_nested ? NamesInForm(member.first) : std::vector<std::string>();
    if (names.empty()) {
      sets.members.push_back(member);
    } else {
      Put(sets, names, member.second);
    }
  }
  return sets;
}

bool IsSomehow(const Json& value) {
  return value.kind == Json::Kind::kString && value.text == kSomehow;
}

const Json* SetAt(const Json& sets, std::string_view place) {
  const Json* at = &sets;
  while (!place.empty() && !at->is_scalar()) {
    const auto end = std::min(place.find('/', 1), place.size());
    at = AtPointer(*at, place.substr(0, end));
    if (at == nullptr) return nullptr;
    place.remove_prefix(end);
  }
  return at;
}

}  // namespace recourse
