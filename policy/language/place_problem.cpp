#include "policy/language/place_problem.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "policy/model/method_override.h"
#include "proxy/base/http/field_reach.h"

namespace recourse {
namespace {

constexpr std::string_view kVariables = "variables#";

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

// What is written for the beginning of a place, and that beginning.
constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
    {"header:", "header."},
    {"headers.", "header."},
    {"query:", "query."},
    {"path:", "path."},
    {"answer.header:", "answer.header."},
    {"answer.headers.", "answer.header."},
    {"before.headers.", "before.header."},
    {"variables#/", "body#/"}};

// In a pointer '~' begins ~0 and ~1, and nothing else.
std::string WithTildeEscaped(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    escaped += text[i];
    const bool is_escape = i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1');
    if (text[i] == '~' && !is_escape) escaped += '0';
  }
  return escaped;
}

bool IsGood(const std::string& place) { return ParseSelector(place).has_value(); }

// "answer.data#/id", "before.title": a member of the body without the word for it.
std::string InBody(std::string_view text) {
  for (const std::string_view side : {"answer", "before"}) {
    if (!text.starts_with(side) || text.size() < side.size() + 2 || text[side.size()] != '.') {
      continue;
    }
    std::string names(text.substr(side.size() + 1));
    if (const auto hash = names.find('#'); hash != std::string::npos) names.erase(hash, 1);
    if (names.starts_with("body") || names.starts_with("header")) return {};
    return AsPointer(std::string(side) + ".body", names);
  }
  return {};
}

// A JSON path, "$.lines[0].sku".
std::string OfJsonPath(std::string_view text, Reads reads) {
  const bool is_json_path = text.starts_with("$.") || text.starts_with("$[");
  if (!is_json_path || text.size() < 3 || text.contains('*')) return {};
  return AsPointer(reads == Reads::kRequest ? "body" : "answer.body",
                   text.substr(text[1] == '.' ? 2 : 1));
}

// "body.cart", "body/cart", "body#cart".
std::string OfBody(std::string_view text) {
  for (const std::string_view body : {"answer.body", "before.body", "body"}) {
    if (!text.starts_with(body) || text.size() <= body.size() + 1) continue;
    const std::string_view rest = text.substr(body.size());
    if (rest[0] != '.' && rest[0] != '/' && rest[0] != '#') continue;
    std::string meant = AsPointer(body, rest[0] == '/' ? rest : rest.substr(1));
    if (IsGood(meant)) return meant;
  }
  return {};
}

// What the writer may not know of the word that is meant.
std::string_view Lesson(std::string_view text) {
  if (text.starts_with("variables")) {
    return " (body# has a mutation's arguments, of a backend with `protocol: graphql`; variables# "
           "is for key_at alone)";
  }
  const bool is_escape = text.contains('~') && text.contains("#/");
  return is_escape ? " (in a pointer ~0 stands for '~' and ~1 for '/')" : "";
}

}  // namespace

std::string PlaceMeant(std::string_view text, Reads reads) {
  for (const std::string_view status : {"status", "status_code", "answer.status_code"}) {
    if (text == status && reads != Reads::kRequest) return "answer.status";
  }
  for (const auto& [wrong, right] : kBeginnings) {
    if (!text.starts_with(wrong)) continue;
    std::string meant = std::string(right) + std::string(text.substr(wrong.size()));
    if (IsGood(meant)) return meant;
  }
  for (std::string meant :
       {WithTildeEscaped(text), OfJsonPath(text, reads), OfBody(text), InBody(text)}) {
    if (!meant.empty() && meant != text && IsGood(meant)) return meant;
  }
  return {};
}

namespace {

std::string Doubt(std::string_view text, Reads reads) {
  if (const std::string meant = PlaceMeant(text, reads); !meant.empty()) {
    return ", did you mean '" + meant + "'?" + std::string(Lesson(text));
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

// RFC 6901, 4: no index of an array.
bool HasLeadingZero(std::string_view step) {
  return step.size() > 1 && step[0] == '0' &&
         step.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsAnyStep(std::string_view pointer, bool (*is_meant)(std::string_view)) {
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const auto end = std::min(pointer.find('/'), pointer.size());
    if (is_meant(pointer.substr(0, end))) return true;
    pointer.remove_prefix(end);
  }
  return false;
}

// Empty, or what no pointer means.
std::string_view WhyTakenLiterally(const Selector& place) {
  using enum Selector::Source;
  const bool is_forms = place.source == kBody;  // whose fields have names with brackets
  const bool is_pointer = is_forms || place.source == kAnswerBody || place.source == kBeforeBody;
  if (!is_pointer) return {};
  if (IsAnyStep(place.name, HasLeadingZero)) {
    return "an index of a list has no leading zero: items/0";
  }
  if (place.name.find_first_of(is_forms ? "{}" : "{}[]") != std::string::npos ||
      IsAnyStep(place.name, IsOddStep)) {
    return "a pointer has names and indices alone, such as items/0";
  }
  return {};
}

}  // namespace

void WarnAboutPointer(const LocatedText& text, const Selector& place, Problems& problems) {
  const std::string_view why = WhyTakenLiterally(place);
  if (why.empty()) return;
  const bool may_search = text.key.contains(".settle") && !IsAnyStep(place.name, HasLeadingZero);
  problems.Warn(text.place, text.key,
                place.text +
                    " is taken literally, and will hardly ever match: " + std::string(why) +
                    (may_search ? "; to look through a list say happened: { in, where }" : ""));
}

bool NamesVariables(std::string_view place) { return place.starts_with(kVariables); }

std::string NoVariables(std::string_view place) {
  const std::string pointer(place.substr(std::min(kVariables.size(), place.size())));
  return "'" + std::string(place) +
         "': only a backend with `protocol: graphql` has variables; a "
         "place in a JSON body is body#" +
         pointer;
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

namespace {

bool IsOurs(std::string_view lower) {
  return lower.starts_with("recourse-") || lower.starts_with("idempotent-");
}

}  // namespace

std::string WhyUnseen(std::string_view place, std::string_view field) {
  const std::string lower = ToLower(field);
  std::string why(place);
  if (IsOverrideField(lower)) {
    return why +
           " is refused with its call, which could be another method or path to its backend; name "
           "a field of the agent's own";
  }
  if (ReachOf(lower) != FieldReach::kNowhere) return {};
  why += " is taken out before a tool gets the call: ";
  if (lower == "host") {
    why += "it names the server, as `match` does";
  } else if (IsOurs(lower)) {
    return why + "it is ours; accepted of those: Recourse-Session, Recourse-Intent, Recourse-Flow";
  } else {
    why += "it is about one connection, and no part of the call";
  }
  return why + "; name a field of the agent's own, such as X-Acme-Order";
}

std::string PlaceProblem(std::string_view text, Reads reads) {
  return "'" + std::string(text) + "' is no place" + Doubt(text, reads) +
         "; accepted: " + std::string(PlacesOf(reads));
}

namespace {

// "4xx" of "4XX" and "4**", else empty.
std::string ClassMeant(std::string_view text) {
  const bool is_class = text.size() == 3 && text[0] >= '1' && text[0] <= '5' &&
                        text.find_first_not_of("xX*", 1) == std::string_view::npos;
  return is_class ? std::string(1, text[0]) + "xx" : std::string();
}

// Of one that compares a status with a class of them, which a condition knows nothing of.
std::string ClassProblem(const std::string& text, const std::string& meant) {
  return "'" + text + "' is a class of statuses, and a condition compares with one of them: " +
         "answer.status " +
         (meant[0] <= '2' ? "< " + std::string(1, meant[0] + 1) : ">= " + meant.substr(0, 1)) +
         "00";
}

bool IsStatus(std::string_view text) {
  return text.size() == 3 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Of "tools.t.approval.when[0]" what stands before the index.
std::string_view WithoutIndex(std::string_view key) {
  return key.ends_with(']') ? key.substr(0, key.find_last_of('[')) : key;
}

// What says "or" where a list says "and".
std::string_view InsteadOfOr(std::string_view key) {
  if (key.ends_with(".approval.when")) {
    return "leave `when` out, and a human sees every call, or refuse one of the two kinds of calls "
           "by `deny`, of whose list one is enough";
  }
  if (key.contains(".undo") && key.ends_with(".when"))
    return "give a list of undos, one for each of them";
  return "name one condition that holds in both cases";
}

// "and" and "or", of which a list can say one only: taken for the other it lets too much pass.
std::string JoinProblem(std::string_view word, std::string_view key) {
  static constexpr std::string_view kList = "[ 'body#/a == 1', 'body#/b == 2' ]";
  const bool is_and = word == "and" || word == "&&", needs_all = NeedsAll(key);
  std::string told = "'" + std::string(word) + "' joins nothing here; ";
  if (is_and == needs_all) {
    told += "several conditions are a list: ";
    told += kList;
    return told + (needs_all ? ", of which all must hold" : ", of which one is enough");
  }
  if (is_and) return told + "of a list one is enough: name one condition that says it alone";
  told += "of a list all must hold: ";
  return told += InsteadOfOr(key);
}

// What stands between place and value, and the value, of a condition whose place is good.
std::string ValueProblem(std::string_view key, std::string_view place, std::string_view rest,
                         Reads reads, const Error& error) {
  const std::string detail(error.detail());
  const auto end = std::min(rest.find(' '), rest.size());
  const std::string_view op = rest.substr(0, end);
  std::string value(rest.substr(std::min(end + 1, rest.size())));
  if (op == "=" || op == "===")
    return "'" + std::string(op) + "' is none, did you mean '=='?; " + detail;
  for (const std::string_view word : {" and ", " && ", " or ", " || "}) {
    if (!value.contains(word)) continue;
    return JoinProblem(word.substr(1, word.size() - 2), WithoutIndex(key));
  }
  std::erase_if(value, [](char c) { return c == '\'' || c == '"'; });
  const std::string meant = ClassMeant(value);
  if (place == "answer.status" && !meant.empty()) return ClassProblem(value, meant);
  const bool is_text = (op == "==" || op == "!=") && !value.empty() && !value.contains('{') &&
                       !value.contains('[') && !value.contains('\\');
  if (!is_text) return detail;
  const bool is_of_call = place.starts_with("body#") || place.starts_with("header.");
  return detail + ", did you mean '" + (reads == Reads::kAnswer && is_of_call ? "answer." : "") +
         std::string(place) + ' ' + std::string(op) + " \"" + value + "\"'?";
}

}  // namespace

bool NeedsAll(std::string_view key) {
  static constexpr std::string_view kAll[] = {".when", ".allow", ".success_when", ".until",
                                              ".happened"};
  return std::ranges::any_of(kAll, [key](std::string_view word) { return key.ends_with(word); });
}

std::string ConditionProblem(const LocatedText& located, Reads reads, const Error& error) {
  const std::string_view text = located.text;
  const auto space = std::min(text.find(' '), text.size());
  const std::string_view place = text.substr(0, space);
  if (place.empty()) return std::string(error.detail());
  if (ParseSelector(place)) {
    return ValueProblem(located.key, place, text.substr(std::min(space + 1, text.size())), reads,
                        error);
  }
  if (IsStatus(text) && reads != Reads::kRequest) {
    return "'" + std::string(text) +
           "' is no condition, did you mean 'answer.status == " + std::string(text) + "'?";
  }
  if (const std::string meant = ClassMeant(text); !meant.empty() && reads != Reads::kRequest) {
    return ClassProblem(std::string(text), meant);
  }
  return PlaceProblem(place, reads);
}

std::string StatusProblem(std::string_view text, const Error& error) {
  std::string meant = ClassMeant(text);
  if (meant.empty()) {
    meant = text;
    std::erase(meant, ' ');
    for (const std::string_view dash : {"..", "\u2013", ":"}) {
      const auto at = meant.find(dash);
      if (at != std::string::npos) meant.replace(at, dash.size(), "-");
    }
  }
  const std::string detail(error.detail());
  if (!ParseStatuses({meant})) return detail;
  return "'" + std::string(text) + "' is no status, did you mean '" + meant + "'?; " + detail;
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
