#include <algorithm>

#include "policy/template/may_be_null.h"
#include "policy/template/template.h"
#include "policy/uri/path.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Text = RequestTemplate::Text;

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

// Splits at `separator`, but never inside a placeholder: a JSON pointer has slashes of its own.
std::vector<std::string_view> SplitOutside(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  bool inside = false;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') inside = true;
    if (text[i] == '}') inside = false;
    if (inside || text[i] != separator) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

// The literal pieces alone, joined with a harmless letter per placeholder.
std::string Sample(const Text& text) {
  std::string sample;
  for (const auto& piece : text) sample += piece.selector ? "x" : piece.literal;
  return sample;
}

// "answer.body#/amount as number" is a place and the type that is insisted on.
std::pair<std::string_view, RequestTemplate::Type> SplitType(std::string_view text) {
  using Type = RequestTemplate::Type;
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {" as number", Type::kNumber}, {" as text", Type::kText}, {" as bool", Type::kBool}};
  for (const auto& [suffix, type] : kTypes) {
    if (text.ends_with(suffix)) return {text.substr(0, text.size() - suffix.size()), type};
  }
  return {text, Type::kAny};
}

Result<std::vector<Text>> ParsePath(std::string_view path) {
  if (!path.starts_with('/')) {
    return Malformed("the path must start with '/'; host and scheme are the backend's");
  }
  std::vector<Text> segments;
  std::string sample;
  for (const std::string_view part : SplitOutside(path.substr(1), '/')) {
    auto text = ParseTemplateText(part);
    if (!text) return std::unexpected(text.error());
    sample += '/' + Sample(*text);
    segments.push_back(std::move(*text));
  }
  std::string scratch;
  const auto canonical = CanonicalPath(sample, scratch);
  if (!canonical) return std::unexpected(canonical.error());
  if (*canonical != sample) return Malformed("the path has escapes that are not needed");
  return segments;
}

bool IsQueryLiteral(std::string_view text) {
  static constexpr std::string_view kOthers = "-._~!$'()*+,;:@/?%=[]";
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || IsUpper(c) || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

Result<std::vector<std::pair<std::string, Text>>> ParseQuery(std::string_view query) {
  std::vector<std::pair<std::string, Text>> pairs;
  for (const std::string_view part : SplitOutside(query, '&')) {
    const auto equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    if (name.empty() || !IsQueryLiteral(name)) {
      return Malformed("a query name is fixed text: /orders?client_ref={key}");
    }
    const auto value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    auto text = ParseTemplateText(value);
    if (!text) return std::unexpected(text.error());
    for (const auto& piece : *text) {
      if (!piece.selector && !IsQueryLiteral(piece.literal)) {
        return Malformed("the query has a character that must be percent-encoded");
      }
    }
    pairs.emplace_back(name, std::move(*text));
  }
  return pairs;
}

void Collect(const Text& text, std::vector<Selector>& out) {
  for (const auto& piece : text) {
    if (piece.selector) out.push_back(*piece.selector);
  }
}

void Collect(const RequestTemplate::Node& node, std::vector<Selector>& out) {
  Collect(node.text, out);
  for (const auto& item : node.items) Collect(item, out);
  for (const auto& [name, member] : node.members) Collect(member, out);
}

}  // namespace

Result<Text> ParseTemplateText(std::string_view text) {
  Text pieces;
  while (!text.empty()) {
    const auto brace = text.find_first_of("{}");
    if (brace != 0) {
      pieces.push_back({std::string(text.substr(0, brace)), std::nullopt});
      if (brace == std::string_view::npos) break;
      text.remove_prefix(brace);
      continue;
    }
    const auto end = text.find('}');
    if (text[0] == '}' || end == std::string_view::npos) {
      return Malformed(
          "a brace is not closed; a placeholder is {key}, {external_ref} or {body#/pointer}");
    }
    const std::string_view inside = text.substr(1, end - 1);
    if (inside.find('{') != std::string_view::npos) {
      return Malformed("a placeholder has single braces and no functions: {external_ref}");
    }
    auto [place, type] = SplitType(inside);
    const bool may_go = TakeOff(kUnlessNull, place);
    if (place.find(" as ") != std::string_view::npos) {
      return Malformed("the types that a placeholder can name are: as number, as text, as bool");
    }
    auto selector = ParseSelector(place);
    if (!selector) return std::unexpected(selector.error());
    if (may_go && selector->source != Selector::Source::kBeforeBody) {
      return Malformed("`unless null` is for what `before` keeps: {before.body#/note unless null}");
    }
    if (may_go) selector->text += kUnlessNull;
    pieces.push_back({std::string(), std::move(*selector), type});
    text.remove_prefix(end + 1);
  }
  return pieces;
}

Result<RequestTemplate> ParseRequestLine(std::string_view line) {
  RequestTemplate request;
  request.source = line;
  const auto space = line.find(' ');
  const std::string_view method = line.substr(0, space);
  if (space == std::string_view::npos || method.empty() ||
      !std::all_of(method.begin(), method.end(), IsUpper)) {
    return Malformed("accepted: \"METHOD /path?query\" with the method in fixed capital letters");
  }
  if (method.size() > limits::kMethodBytesMax || method == "CONNECT" || method == "TRACE") {
    return Malformed("this method cannot be sent to a backend");
  }
  if (line.size() > limits::kTargetBytesMax) return Malformed("the request line is too long");
  request.method = method;
  const auto halves = SplitOutside(line.substr(space + 1), '?');
  auto path = ParsePath(halves.front());
  if (!path) return std::unexpected(path.error());
  request.path = std::move(*path);
  if (halves.size() > 2) return Malformed("the target has more than one '?'");
  if (halves.size() == 2) {
    auto query = ParseQuery(halves[1]);
    if (!query) return std::unexpected(query.error());
    request.query = std::move(*query);
  }
  return request;
}

std::vector<Selector> SelectorsOf(const RequestTemplate& request) {
  std::vector<Selector> out;
  for (const Text& segment : request.path) Collect(segment, out);
  for (const auto& [name, text] : request.query) Collect(text, out);
  for (const auto& [name, text] : request.headers) Collect(text, out);
  if (request.json) Collect(*request.json, out);
  for (const auto& [name, text] : request.form) Collect(text, out);
  return out;
}

}  // namespace recourse
