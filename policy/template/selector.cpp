#include <array>
#include <string>

#include "policy/template/template.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Source = Selector::Source;

constexpr std::string_view kSelectorHelp =
    "accepted: body#/pointer, path.name, query.name, header.Name, key, external_ref, "
    "answer.body#/pointer, answer.header.Name, answer.status, before.body#/pointer, "
    "before.header.Name";

struct Prefix {
  std::string_view text;
  Source source;
};
constexpr std::array<Prefix, 8> kPrefixes{{
    {"answer.body#", Source::kAnswerBody},
    {"answer.header.", Source::kAnswerHeader},
    {"before.body#", Source::kBeforeBody},
    {"before.header.", Source::kBeforeHeader},
    {"body#", Source::kBody},
    {"path.", Source::kPath},
    {"query.", Source::kQuery},
    {"header.", Source::kHeader},
}};

bool IsGoodName(Source source, std::string_view name) {
  // Member names may have spaces, but "body#/name | upper" asks for a function; there are none.
  if (name.find(" |") != std::string_view::npos) return false;
  switch (source) {
    case Source::kBody:
    case Source::kAnswerBody:
    case Source::kBeforeBody:
      return IsJsonPointer(name);
    case Source::kHeader:
    case Source::kAnswerHeader:
    case Source::kBeforeHeader:
      return IsToken(name);
    default:
      return !name.empty() && IsFieldValue(name) && name.find(' ') == std::string_view::npos;
  }
}

Json TextValue(std::string_view text) {
  Json value;
  value.kind = Json::Kind::kString;
  value.text = text;
  return value;
}

// The only pair of that name; a name that occurs twice has two readings and gives nothing.
template <class Equal>
std::optional<Json> OnlyOne(const std::vector<std::pair<std::string, std::string>>* pairs,
                            std::string_view name, Equal equal) {
  if (pairs == nullptr) return std::nullopt;
  const std::string* found = nullptr;
  for (const auto& [key, value] : *pairs) {
    if (!equal(key, name)) continue;
    if (found != nullptr) return std::nullopt;
    found = &value;
  }
  if (found == nullptr) return std::nullopt;
  return TextValue(*found);
}

bool SameText(std::string_view a, std::string_view b) { return a == b; }

std::optional<Json> AtBody(const Json* body, std::string_view pointer) {
  if (body == nullptr) return std::nullopt;
  const Json* value = AtPointer(*body, pointer);
  if (value == nullptr) return std::nullopt;
  return *value;
}

std::optional<Json> StatusValue(int status) {
  if (status <= 0) return std::nullopt;
  auto value = ParseJson(std::to_string(status));
  if (!value) return std::nullopt;
  return std::move(*value);
}

std::optional<Json> NonEmpty(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return TextValue(text);
}

}  // namespace

Result<Selector> ParseSelector(std::string_view text) {
  Selector selector;
  std::string_view rest = text;
  if (rest.starts_with("request.")) {
    rest.remove_prefix(8);
    if (rest.starts_with("answer.") || rest.starts_with("before.") || rest == "key" ||
        rest == "external_ref") {
      return Malformed(kSelectorHelp);
    }
  }
  selector.text = rest;
  if (rest == "key" || rest == "external_ref" || rest == "answer.status") {
    selector.source = rest == "key"            ? Source::kKey
                      : rest == "external_ref" ? Source::kExternalRef
                                               : Source::kAnswerStatus;
    return selector;
  }
  for (const Prefix& prefix : kPrefixes) {
    if (!rest.starts_with(prefix.text)) continue;
    selector.source = prefix.source;
    selector.name = rest.substr(prefix.text.size());
    if (IsGoodName(selector.source, selector.name)) return selector;
    break;
  }
  return Malformed(kSelectorHelp);
}

bool IsOfCall(const Selector& place) {
  return place.source == Source::kBody || place.source == Source::kHeader ||
         place.source == Source::kQuery || place.source == Source::kPath;
}

std::optional<Json> Select(const Selector& selector, const CallValues& values) {
  switch (selector.source) {
    case Source::kBody:
      return AtBody(values.body, selector.name);
    case Source::kAnswerBody:
      return AtBody(values.answer_body, selector.name);
    case Source::kPath:
      return OnlyOne(values.path, selector.name, SameText);
    case Source::kQuery:
      return OnlyOne(values.query, selector.name, SameText);
    case Source::kHeader:
      return OnlyOne(values.headers, selector.name, EqualsIgnoreCase);
    case Source::kAnswerHeader:
      return OnlyOne(values.answer_headers, selector.name, EqualsIgnoreCase);
    case Source::kKey:
      return NonEmpty(values.key);
    case Source::kExternalRef:
      return NonEmpty(values.external_ref);
    case Source::kAnswerStatus:
      return StatusValue(values.answer_status);
    case Source::kBeforeBody:
      return values.before == nullptr ? std::nullopt : KeptAt(*values.before, selector.name);
    case Source::kBeforeHeader:
      return values.before == nullptr ? std::nullopt
                                      : NonEmpty(std::string(TagOf(values.before->version)));
  }
  return std::nullopt;
}

}  // namespace recourse
