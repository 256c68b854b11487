#include "policy/uri/path_variants.h"

#include <algorithm>
#include <array>

#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

// Of what servers run and give the rest of the path to: PHP, CGI, ASP.NET, ColdFusion.
constexpr std::array<std::string_view, 14> kScripts = {".php",  ".php3",  ".php4", ".php5", ".php7",
                                                       ".php8", ".phtml", ".cgi",  ".fcgi", ".pl",
                                                       ".aspx", ".ashx",  ".asmx", ".cfm"};

bool IsScript(std::string_view segment) {
  const auto dot = segment.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  return std::ranges::any_of(kScripts, [&](std::string_view extension) {
    return EqualsIgnoreCase(segment.substr(dot), extension);
  });
}

}  // namespace

std::vector<std::string> ScriptReadings(std::string_view path) {
  std::vector<std::string> readings;
  if (path.find('.') == std::string_view::npos) return readings;
  for (std::size_t begin = 0; begin < path.size();) {
    const auto end = std::min(path.find('/', begin + 1), path.size());
    const std::string_view rest = path.substr(end);
    if (!rest.empty() && IsScript(TrimTail(path.substr(begin + 1, end - begin - 1)))) {
      readings.emplace_back(path.substr(0, end));
      readings.emplace_back(rest);
      if (begin > 0) readings.push_back(std::string(path.substr(0, begin)).append(rest));
    }
    begin = end;
  }
  return readings;
}

std::string_view TrimTail(std::string_view path) {
  while (path.size() > 1) {
    if (path.ends_with('.')) {
      path.remove_suffix(1);
    } else if (path.ends_with("%20")) {
      path.remove_suffix(3);
    } else {
      break;
    }
  }
  return path;
}

std::string TrimSegments(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const auto end = std::min(path.find('/', 1), path.size());
    out += TrimTail(path.substr(0, end));
    path.remove_prefix(end);
  }
  return out;
}

PathVariants::PathVariants(std::string_view path) {
  Add(path);
  std::string_view trimmed = path;
  if (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.remove_suffix(1);
  Add(trimmed);
  trimmed = TrimTail(trimmed);
  Add(trimmed);
  const auto slash = trimmed.rfind('/');
  if (slash == std::string_view::npos) return;
  const std::string_view name = trimmed.substr(slash + 1);
  for (const auto dot : {name.rfind('.'), name.find('.')}) {
    if (dot == std::string_view::npos || dot == 0) continue;
    Add(TrimTail(trimmed.substr(0, slash + 1 + dot)));
  }
}

void PathVariants::Add(std::string_view path) {
  if (std::find(begin(), end(), path) == end()) all_[count_++] = path;
}

}  // namespace recourse
