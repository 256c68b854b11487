#include "policy/uri/readings.h"

#include <algorithm>

namespace recourse {

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

Readings::Readings(std::string_view path) {
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

void Readings::Add(std::string_view path) {
  if (std::find(begin(), end(), path) == end()) all_[count_++] = path;
}

}  // namespace recourse
