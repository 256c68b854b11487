#include "policy/graphql/key_argument.h"

#include <algorithm>
#include <vector>

#include "policy/graphql/operation.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

using FoundKey = std::expected<GraphqlKeyArgument, std::string_view>;

constexpr std::string_view kNotInRequest =
    "the document is not in the request, so no key can be written into it";
constexpr std::string_view kHashed =
    "a hash of the document stands beside it, so no key can be written into it";
constexpr std::string_view kNoMutation = "the document is not one mutation with one field";
constexpr std::string_view kTwice = "the directive that takes the key is there twice";
constexpr std::string_view kOtherArguments = "the directive that takes the key has other arguments";
constexpr std::string_view kNoText = "a key is a text, and what stands in its place is none";
constexpr std::string_view kStandard = "the variable that the key stands in has a default value";

// How many bytes of UTF-8 the escape at `at` of a JSON text stands for, and how long it is.
struct EscapeSize {
  std::size_t decoded = 1, raw = 2;
};
EscapeSize SizeOfEscape(std::string_view raw, std::size_t at) {
  if (raw[at + 1] != 'u') return {};
  unsigned unit = 0;
  for (const char c : raw.substr(at + 2, 4)) {
    unit = unit * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  if (unit >= 0xD800 && unit <= 0xDFFF) return {4, 12};  // ParseJson takes them in pairs alone
  return {unit < 0x80 ? 1U : unit < 0x800 ? 2U : 3U, 6};
}

// Where the byte `offset` of the decoded text stands in the JSON text without its quotes.
std::size_t RawOffset(std::string_view raw, std::size_t offset) {
  std::size_t at = 0, decoded = 0;
  while (decoded < offset && at < raw.size()) {
    const EscapeSize size = raw[at] == '\\' ? SizeOfEscape(raw, at) : EscapeSize{1, 1};
    decoded += size.decoded;
    at += size.raw;
  }
  return at;
}

// The place in the document, as one in the body.
void MoveToBody(std::string_view body, GraphqlKeyArgument& place) {
  if (!place.is_in_json) return;
  const JsonSpan text = FindJsonSpan(body, "/query").value_or(JsonSpan{0, 2});
  const std::string_view raw = body.substr(text.at + 1, text.size - 2);
  const std::size_t begin = RawOffset(raw, place.span.at);
  const std::size_t end = RawOffset(raw, place.span.at + place.span.size);
  place.span = {text.at + 1 + begin, end - begin};
}

FoundKey ArgumentOf(const GraphqlSelection& field, const GraphqlOperation& operation,
                    const Json& variables, std::string_view directive, std::string_view argument) {
  GraphqlKeyArgument place;
  const auto is_it = [&](const GraphqlDirective& one) { return one.name == directive; };
  if (std::ranges::count_if(field.directives, is_it) > 1) return std::unexpected(kTwice);
  const auto it = std::ranges::find_if(field.directives, is_it);
  place.before = std::string(argument) + ": ";
  place.after = ")";
  if (it == field.directives.end()) {
    place.span.at = field.head.at + field.head.size;
    place.before.insert(0, " @" + std::string(directive) + "(");
    return place;
  }
  place.span = it->span;
  if (it->arguments.empty()) {
    place.span = {it->span.at + it->span.size, 0};
    place.before.insert(0, "(");
    return place;
  }
  const auto& [name, value] = it->arguments.front();
  if (it->arguments.size() > 1 || name != argument) return std::unexpected(kOtherArguments);
  if (value.kind == GraphqlValue::Kind::kString) {
    place.text = value.text;
    return place;
  }
  if (value.kind != GraphqlValue::Kind::kVariable) return std::unexpected(kNoText);
  const auto declared = std::ranges::find(operation.variables, value.text, &GraphqlVariable::name);
  if (declared != operation.variables.end() && declared->standard) {
    return std::unexpected(kStandard);
  }
  place.variable = value.text;
  const Json* const given = variables.Find(value.text);
  if (given == nullptr) return place;
  if (given->kind != Json::Kind::kString) return std::unexpected(kNoText);
  place.text = given->text;
  return place;
}

}  // namespace

FoundKey FindGraphqlKey(std::string_view body, std::string_view directive,
                        std::string_view argument) {
  const auto message = ParseJson(body);
  const std::string_view text = message ? TextOf(*message, "query") : body;
  if (text.empty()) return std::unexpected(kNotInRequest);
  const auto document = ParseGraphql(text);
  if (!document) return std::unexpected(kNoMutation);
  const auto operation =
      ChooseOperation(*document, message ? TextOf(*message, "operationName") : std::string_view());
  if (!operation) return std::unexpected(kNoMutation);
  const Json* const given = message ? message->Find("variables") : nullptr;
  const Json variables = given == nullptr ? Json() : *given;
  const auto call = ResolveOperation(*document, **operation, variables);
  if (!call || call->fields.size() != 1) return std::unexpected(kNoMutation);
  FoundKey place =
      ArgumentOf(*call->fields.front().as_written, **operation, variables, directive, argument);
  if (!place) return place;
  place->is_in_json = message.has_value();
  const bool is_fixed =
      place->is_in_json && AtPointer(*message, "/extensions/persistedQuery") != nullptr;
  if (is_fixed && !place->text && place->variable.empty()) return std::unexpected(kHashed);
  MoveToBody(body, *place);
  return place;
}

std::string GraphqlKeyText(const GraphqlKeyArgument& place, std::string_view key) {
  std::string text = place.before;
  AppendJsonString(text, key);  // as GraphQL writes it, too
  text += place.after;
  if (!place.is_in_json) return text;
  std::string escaped;
  AppendJsonString(escaped, text);
  return escaped.substr(1, escaped.size() - 2);
}

}  // namespace recourse
