#include "policy/model/tool_names.h"

#include <algorithm>
#include <array>

#include "policy/uri/letters.h"
#include "policy/uri/twins.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/';
}

bool Fit(std::string_view a, std::string_view b, bool (*fits)(std::string_view, std::string_view)) {
  return a.size() < b.size() ? fits(b, a) : fits(a, b);
}

}  // namespace

std::string_view CheckMcpName(std::string_view text) {
  if (text.empty() || text.size() > limits::kMcpToolNameBytesMax) {
    return "the name of an MCP tool has 1 to 128 characters";
  }
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c == '*' || IsNameChar(c); })) {
    return "the name of an MCP tool has letters, digits, '_', '-', '.' and '/'; in a glob '*' "
           "stands for any characters: read_*";
  }
  if (text.find("**") != std::string_view::npos) {
    return "one star is enough: '*' stands for any characters";
  }
  if (std::count(text.begin(), text.end(), '*') > limits::kMcpGlobStarsMax) {
    return "a glob has at most 4 stars";
  }
  return {};
}

bool IsMcpGlob(std::string_view text) { return text.find('*') != std::string_view::npos; }

bool MatchesMcpGlob(std::string_view glob, std::string_view name) {
  // Where to go on when what follows the last star does not match: one character later.
  std::size_t star = std::string_view::npos, resume = 0;
  std::size_t at = 0, i = 0;
  while (i < name.size()) {
    if (at < glob.size() && glob[at] == '*') {
      star = at++;
      resume = i;
    } else if (at < glob.size() && glob[at] == name[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++resume;
    } else {
      return false;
    }
  }
  while (at < glob.size() && glob[at] == '*') ++at;
  return at == glob.size();
}

std::size_t McpLiterals(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return c != '*'; }));
}

std::string ShownCallName(std::string_view name) {
  std::string shown(name.substr(0, limits::kMcpToolNameBytesMax));
  std::ranges::replace_if(shown, [](char c) { return !IsNameChar(c); }, '?');
  return shown;
}

std::string LooseMcpName(std::string_view name) {
  std::string loose;
  std::size_t named = 0;  // without the blanks at its end
  std::string_view rest = name.substr(0, name.find('\0'));
  while (!rest.empty()) {
    const std::string_view from = rest;
    const char32_t point = TakePoint(rest);
    const std::string_view taken = from.substr(0, from.size() - rest.size());
    const bool is_blank = taken == " " || AsciiOf(point) == " ";
    if (is_blank && loose.empty()) continue;
    loose += is_blank ? "_" : SkeletonOf(NameIn::kMcp, taken);
    if (!is_blank) named = loose.size();
  }
  loose.resize(named);
  return loose;
}

std::string_view WithoutMcpNamespace(std::string_view loose) {
  static constexpr std::array<std::string_view, 6> kSpaces{"functions_", "function_",    "tools_",
                                                           "tool_",      "default_api_", "mcp__"};
  for (const std::string_view space : kSpaces) {
    if (!loose.starts_with(space)) continue;
    std::size_t end = space.size();
    if (space == "mcp__") end = std::min(loose.find("__", end), loose.size() - 2) + 2;
    return loose.substr(end);
  }
  return loose;
}

bool McpNamesOverlap(std::string_view a, std::string_view b) {
  if (!IsMcpGlob(a)) return MatchesMcpGlob(b, a);
  if (!IsMcpGlob(b)) return MatchesMcpGlob(a, b);
  // What stands between the first and the last star can be put one behind the other.
  const auto starts = [](std::string_view text, std::string_view part) {
    return text.starts_with(part);
  };
  const auto ends = [](std::string_view text, std::string_view part) {
    return text.ends_with(part);
  };
  return Fit(a.substr(0, a.find('*')), b.substr(0, b.find('*')), starts) &&
         Fit(a.substr(a.rfind('*') + 1), b.substr(b.rfind('*') + 1), ends);
}

}  // namespace recourse
