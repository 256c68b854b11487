#include "policy/undo/undo_names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "policy/uri/opposites.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

using Node = RequestTemplate::Node;
using Source = Selector::Source;
using Text = RequestTemplate::Text;

// Last words of names that hold the name of a thing, and no amount or state of it.
constexpr std::array<std::string_view, 12> kNaming{
    "id", "uuid", "ref", "reference", "sid", "key", "name", "arn", "href", "uri", "url", "self"};

bool NamesEffect(const Tool& tool, const Selector& place) {
  switch (place.source) {
    case Source::kKey:
    case Source::kExternalRef:
      return true;
    case Source::kAnswerBody:
      return (tool.external_ref && tool.external_ref->text == place.text) || IsNaming(place.name);
    case Source::kAnswerHeader:
      return true;
    default:
      return false;
  }
}

bool NamesEffect(const Tool& tool, const Text& text) {
  return std::ranges::any_of(text, [&](const RequestTemplate::Piece& piece) {
    return piece.selector && NamesEffect(tool, *piece.selector);
  });
}

// Calls `found` with the name of each place that names the effect, and what stands there in `json`,
// which may be null.
template <class Found>
void Walk(const Tool& tool, const Node& node, const std::string& name, const Json* json,
          const Found& found) {
  if (node.kind == Json::Kind::kString && NamesEffect(tool, node.text)) found(name, json);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const bool is_there = json != nullptr && i < json->items.size();
    Walk(tool, node.items[i], name, is_there ? &json->items[i] : nullptr, found);
  }
  for (const auto& [member, value] : node.members) {
    const bool is_object = json != nullptr && json->kind == Json::Kind::kObject;
    Walk(tool, value, member, is_object ? json->Find(member) : nullptr, found);
  }
}

}  // namespace

bool IsNaming(std::string_view pointer) {
  const std::vector<std::string> words = WordsOf(pointer.substr(pointer.rfind('/') + 1));
  return !words.empty() && std::ranges::find(kNaming, words.back()) != kNaming.end();
}

bool NamesEffectInTarget(const Tool& tool, const UndoRule& rule) {
  const auto names = [&](const Text& text) { return NamesEffect(tool, text); };
  const auto& query = rule.request.query;
  return std::ranges::any_of(rule.request.path, names) ||
         std::ranges::any_of(query, [&](const auto& each) { return names(each.second); });
}

bool NamesEffect(const Tool& tool, const UndoRule& rule) {
  return NamesEffectInTarget(tool, rule) || !MembersThatName(tool, rule).empty();
}

std::vector<std::string> MembersThatName(const Tool& tool, const UndoRule& rule) {
  std::vector<std::string> names;
  for (const auto& [name, text] : rule.request.form) {
    if (NamesEffect(tool, text)) names.push_back(name);
  }
  if (!rule.request.json) return names;
  Walk(tool, *rule.request.json, {}, nullptr,
       [&](const std::string& name, const Json*) { names.push_back(name); });
  return names;
}

std::vector<std::string> TextsThatName(const Tool& tool, const UndoRule& rule,
                                       const RenderedRequest& request) {
  std::vector<std::string> texts;
  if (!rule.request.form.empty()) {
    const Pairs pairs = ParsePairs(request.body);
    for (const std::string& name : MembersThatName(tool, rule)) {
      const auto field = std::ranges::find(pairs, name, &Pairs::value_type::first);
      if (field != pairs.end()) texts.push_back(field->second);
    }
    return texts;
  }
  if (!rule.request.json) return texts;
  const auto body = ParseJson(request.body);
  if (!body) return texts;
  Walk(tool, *rule.request.json, {}, &*body, [&](const std::string&, const Json* json) {
    if (json != nullptr && json->is_scalar()) texts.push_back(ScalarText(*json));
  });
  return texts;
}

}  // namespace recourse
