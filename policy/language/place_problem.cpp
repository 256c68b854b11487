#include "policy/language/place_problem.h"

#include <algorithm>
#include <vector>

namespace recourse {
namespace {

// A body's place is a JSON pointer after '#', which people write as a path of names and indexes.
std::string AsPointer(std::string_view body, std::string_view names) {
  std::string pointer;
  for (const char c : names) {
    if (c == '.' || c == '[') {
      pointer += '/';
    } else if (c != ']' && c != '\'' && c != '"') {
      pointer += c;
    }
  }
  if (!pointer.starts_with('/')) pointer.insert(0, "/");
  return std::string(body) + '#' + pointer;
}

// What was probably meant; empty: nobody knows.
std::string PlaceMeant(std::string_view text, Reads reads) {
  const bool is_json_path = text.starts_with("$.") || text.starts_with("$[");
  if (is_json_path && text.size() > 2 && !text.contains('*')) {
    const std::string meant = AsPointer(reads == Reads::kRequest ? "body" : "answer.body",
                                        text.substr(text[1] == '.' ? 2 : 1));
    return ParseSelector(meant) ? meant : std::string();
  }
  for (const std::string_view body : {"answer.body", "before.body", "body"}) {
    if (!text.starts_with(body) || text.size() <= body.size() + 1) continue;
    const std::string_view rest = text.substr(body.size());
    if (rest[0] != '.' && rest[0] != '/' && rest[0] != '#') continue;
    std::string meant = AsPointer(body, rest[0] == '/' ? rest : rest.substr(1));
    if (ParseSelector(meant)) return meant;
  }
  return {};
}

std::string Doubt(std::string_view text, Reads reads) {
  if (const std::string meant = PlaceMeant(text, reads); !meant.empty()) {
    return ", did you mean '" + meant + "'?";
  }
  return DidYouMean(text, {"external_ref", "answer.status", "key"});
}

// "body#/a" of "body#/a as number".
std::string_view WithoutType(std::string_view placeholder) {
  return placeholder.substr(0, placeholder.find(" as "));
}

// Of one that has a name for every step: "a/*/b", "a//b", "$.a".
bool IsOddStep(std::string_view step) {
  return step.empty() || step == "*" || step == "-" || step == "$" || step.starts_with("$.");
}

bool IsTakenLiterally(const Selector& place) {
  using enum Selector::Source;
  const bool is_forms = place.source == kBody;  // whose fields have names with brackets
  const bool is_pointer = is_forms || place.source == kAnswerBody || place.source == kBeforeBody;
  if (!is_pointer) return false;
  if (place.name.find_first_of(is_forms ? "{}" : "{}[]") != std::string::npos) return true;
  std::string_view rest = place.name;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('/'), rest.size());
    if (IsOddStep(rest.substr(0, end))) return true;
    rest.remove_prefix(end);
  }
  return false;
}

}  // namespace

void WarnAboutPointer(const LocatedText& text, const Selector& place, Problems& problems) {
  if (!IsTakenLiterally(place)) return;
  problems.Warn(text.place, text.key,
                place.text +
                    " is taken literally, and will hardly ever match: a pointer has names and "
                    "indices alone; to look through a list say happened: { in, where }");
}

std::string_view PlacesOf(Reads reads) {
  switch (reads) {
    case Reads::kRequest:
      return "body#/pointer, path.name, query.name, header.Name";
    case Reads::kAnswer:
      return "answer.body#/pointer, answer.header.Name, answer.status";
    case Reads::kAlsoBefore:
      return "answer.body#/pointer, answer.header.Name, answer.status, before.body#/pointer, "
             "body#/pointer, path.name, query.name, header.Name";
    case Reads::kRequestOrAnswer:
      break;
  }
  return "answer.body#/pointer, answer.header.Name, answer.status, body#/pointer, path.name, "
         "query.name, header.Name";
}

std::string PlaceProblem(std::string_view text, Reads reads) {
  return "'" + std::string(text) + "' is no place" + Doubt(text, reads) +
         "; accepted: " + std::string(PlacesOf(reads));
}

std::string ConditionProblem(std::string_view text, Reads reads, const Error& error) {
  const std::string_view place = text.substr(0, text.find(' '));
  if (place.empty() || ParseSelector(place)) return std::string(error.detail());
  return PlaceProblem(place, reads);
}

std::string TemplateProblem(std::string_view text, const Error& error) {
  for (auto open = text.find('{'); open != std::string_view::npos;
       open = text.find('{', open + 1)) {
    const auto close = text.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view place = WithoutType(text.substr(open + 1, close - open - 1));
    if (place.empty() || place.contains('{') || ParseSelector(place)) continue;
    return "{" + std::string(place) + "} is no place" + Doubt(place, Reads::kRequest) + "; " +
           std::string(error.detail());
  }
  return std::string(error.detail());
}

}  // namespace recourse
