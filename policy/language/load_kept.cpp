// What a tool keeps of its answers, and what never reaches the ledger.
#include <algorithm>

#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"

namespace recourse {
namespace {

using Source = Selector::Source;

bool CanBeRedacted(Source source) {
  return source == Source::kAnswerBody || source == Source::kAnswerHeader ||
         source == Source::kBody || source == Source::kHeader || source == Source::kQuery;
}

// True when reading one place shows something of the other: the same, or one inside the other.
bool Overlap(const Selector& a, const Selector& b) {
  if (a.source != b.source) return false;
  if (a.source == Source::kHeader || a.source == Source::kAnswerHeader) {
    return EqualsIgnoreCase(a.name, b.name);
  }
  if (a.source == Source::kQuery) return a.name == b.name;
  const std::string_view shorter = a.name.size() < b.name.size() ? a.name : b.name;
  const std::string_view longer = a.name.size() < b.name.size() ? b.name : a.name;
  return longer.starts_with(shorter) &&
         (longer.size() == shorter.size() || longer[shorter.size()] == '/');
}

// A kept place is one of the resource, whichever message shows it.
std::vector<Selector> PlacesKept(const BeforeRule& rule) {
  std::vector<Selector> places = SelectorsOf(rule.request);
  const auto add = [&places](Selector place) {
    places.push_back(place);
    place.source = place.source == Source::kBody ? Source::kAnswerBody : Source::kAnswerHeader;
    places.push_back(std::move(place));
  };
  for (const Selector& place : rule.keep) add(place);
  if (rule.version) add(*rule.version);
  return places;
}

}  // namespace

std::vector<std::string> ReadKeepHeaders(MapReader& map) {
  std::vector<std::string> names;
  for (LocatedText& item : map.Texts("keep_headers")) {
    if (IsCredentialField(item.text)) {
      map.problems().Error(item.place, item.key,
                           item.text +
                               " carries credentials and is never kept; a repeat gets the answer "
                               "without it");
    } else if (!IsToken(item.text) || IsReservedHeader(item.text)) {
      map.problems().Error(item.place, item.key,
                           "accepted: the name of an answer's field, such as X-Receipt");
    } else {
      names.push_back(std::move(item.text));
    }
  }
  return names;
}

std::vector<Selector> ReadRedact(MapReader& map) {
  std::vector<Selector> places;
  for (const LocatedText& item : map.Texts("redact")) {
    auto place = ReadSelector(item, Reads::kRequestOrAnswer, map.problems());
    if (!place) continue;
    if (!CanBeRedacted(place->source)) {
      map.problems().Error(item.place, item.key,
                           "accepted: body#/pointer, header.Name, query.name, "
                           "answer.body#/pointer, answer.header.Name; the path names the call in "
                           "logs, so what must stay secret cannot stand in it");
      continue;
    }
    places.push_back(std::move(*place));
  }
  return places;
}

void CheckCredentials(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  const auto check = [&](std::string_view word, const std::vector<Selector>& read) {
    for (const Selector& selector : read) {
      const bool is_field =
          selector.source == Source::kHeader || selector.source == Source::kAnswerHeader;
      if (!is_field || !IsCredentialField(selector.name)) continue;
      draft.problems.Error(
          draft.ToolPlace(index, word), draft.ToolKey(index, word),
          selector.text +
              " carries credentials, and whoever reads the log would read them from here; they go "
              "only into a field that carries credentials too: headers: { " +
              selector.name + ": \"{" + selector.text + "}\" }");
    }
  };
  // Those fields are sealed on disk and never shown.
  const auto check_request = [&](std::string_view word, RequestTemplate request) {
    std::erase_if(request.headers,
                  [](const auto& field) { return IsCredentialField(field.first); });
    check(word, SelectorsOf(request));
  };
  if (tool.external_ref) check("external_ref", {*tool.external_ref});
  if (tool.settle) check_request("settle", tool.settle->request);
  if (tool.settled_by) check_request("settled_by", tool.settled_by->request);
  if (tool.before) check_request("before", tool.before->request);
  if (tool.before && tool.before->version) check("before", {*tool.before->version});
  for (const UndoRule* const undo : UndosOf(tool)) {
    check_request("undo", undo->request);
    if (undo->settled_by) check_request("undo", undo->settled_by->request);
  }
}

void CheckRedact(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  const auto check = [&](std::string_view word, const std::vector<Selector>& read) {
    for (const Selector& place : tool.redact) {
      for (const Selector& selector : read) {
        if (!Overlap(place, selector)) continue;
        draft.problems.Error(draft.ToolPlace(index, word), draft.ToolKey(index, word),
                             selector.text + " would be stored, but `redact` says that " +
                                 place.text +
                                 " never is; name another place, or do not redact this one");
      }
    }
  };
  if (tool.external_ref) check("external_ref", {*tool.external_ref});
  if (tool.settle) check("settle", SelectorsOf(tool.settle->request));
  if (tool.settled_by) check("settled_by", SelectorsOf(tool.settled_by->request));
  if (tool.before) check("before", PlacesKept(*tool.before));
  if (!tool.undo) return;
  for (const UndoRule* const undo : UndosOf(tool)) check("undo", SelectorsOf(undo->request));
  for (const std::string& name : tool.undo->from_call) {
    check("undo", {Selector{Source::kHeader, name, "header." + name}});
  }
}

}  // namespace recourse
