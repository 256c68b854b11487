#include "proxy/base/json/json_span.h"

#include <algorithm>
#include <string>

#include "proxy/base/json/json.h"

namespace recourse {
namespace {

// Each takes a position and gives the one behind what it skips. The text is known to be valid.
std::size_t SkipSpace(std::string_view text, std::size_t at) {
  const auto found = text.find_first_not_of(" \t\r\n", at);
  return found == std::string_view::npos ? text.size() : found;
}

// A quote behind an odd number of backslashes is one of the string's own.
std::size_t SkipString(std::string_view text, std::size_t at) {
  const std::size_t begin = ++at;
  for (;; ++at) {
    at = text.find('"', at);
    if (at == std::string_view::npos) return text.size();
    std::size_t slashes = 0;
    while (at - slashes > begin && text[at - slashes - 1] == '\\') ++slashes;
    if (slashes % 2 == 0) return at + 1;
  }
}

std::size_t SkipValue(std::string_view text, std::size_t at) {
  if (text[at] == '"') return SkipString(text, at);
  if (text[at] != '{' && text[at] != '[') {
    const auto end = text.find_first_of(",]} \t\r\n", at);
    return end == std::string_view::npos ? text.size() : end;
  }
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = SkipString(text, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
    if (depth == 0) break;
  }
  return at;
}

bool IsNamed(std::string_view quoted, std::string_view name) {
  if (quoted.find('\\') == std::string_view::npos) {
    return quoted.substr(1, quoted.size() - 2) == name;
  }
  const auto text = ParseJson(quoted);
  return text && text->text == name;
}

constexpr std::size_t kNowhere = std::string_view::npos;

// Where a child of a container begins; kNowhere: there is none.
struct Child {
  std::size_t name = kNowhere;  // of an object's
  std::size_t value = kNowhere;
};
Child FindChild(std::string_view text, std::size_t at, std::string_view name) {
  const bool is_object = at < text.size() && text[at] == '{';
  if (!is_object && (at >= text.size() || text[at] != '[')) return {};
  at = SkipSpace(text, at + 1);
  for (std::size_t index = 0; at < text.size() && text[at] != '}' && text[at] != ']'; ++index) {
    bool is_it = !is_object && std::to_string(index) == name;
    const std::size_t begin = at;
    if (is_object) {
      const std::size_t end = SkipString(text, at);
      is_it = IsNamed(text.substr(at, end - at), name);
      at = SkipSpace(text, SkipSpace(text, end) + 1);  // the colon
    }
    if (is_it) return {is_object ? begin : kNowhere, at};
    at = SkipSpace(text, SkipValue(text, at));
    if (at < text.size() && text[at] == ',') at = SkipSpace(text, at + 1);
  }
  return {};
}

}  // namespace

std::optional<JsonSpan> FindJsonSpan(std::string_view text, std::string_view pointer) {
  std::size_t at = SkipSpace(text, 0);
  while (!pointer.empty()) {
    const auto end = pointer.find('/', 1);
    const std::string name =
        MemberName(pointer.substr(1, end == std::string_view::npos ? end : end - 1));
    pointer = end == std::string_view::npos ? std::string_view() : pointer.substr(end);
    at = FindChild(text, at, name).value;
    if (at == kNowhere) return std::nullopt;
  }
  return JsonSpan{at, SkipValue(text, at) - at};
}

std::optional<JsonSpan> FindJsonMember(std::string_view text, std::string_view pointer) {
  const auto last = pointer.rfind('/');
  if (last == std::string_view::npos) return std::nullopt;
  const auto parent = FindJsonSpan(text, pointer.substr(0, last));
  if (!parent) return std::nullopt;
  const Child child = FindChild(text, parent->at, MemberName(pointer.substr(last + 1)));
  if (child.name == kNowhere) return std::nullopt;
  return JsonSpan{child.name, SkipValue(text, child.value) - child.name};
}

std::string PlainJsonText(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t at = SkipSpace(text, 0); at < text.size(); at = SkipSpace(text, at)) {
    if (text[at] != '"') {
      plain.push_back(text[at++]);
      continue;
    }
    const std::string_view quoted = text.substr(at, SkipString(text, at) - at);
    at += quoted.size();
    if (quoted.find('\\') == std::string_view::npos) {
      plain += quoted;
    } else if (const auto read = ParseJson(quoted)) {
      AppendJsonString(plain, read->text);
    }
  }
  return plain;
}

std::string MemberName(std::string_view token) {
  const std::size_t plain = std::min(token.find('~'), token.size());
  std::string name(token.substr(0, plain));
  for (std::size_t i = plain; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size()) {
      name.push_back(token[++i] == '1' ? '/' : '~');
    } else {
      name.push_back(token[i]);
    }
  }
  return name;
}

std::string PointerToken(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace recourse
