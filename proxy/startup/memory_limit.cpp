#include "proxy/startup/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

// What version 1 says where there is no limit is a number as well, the largest one in pages.
constexpr std::uint64_t kNoLimitFrom = std::uint64_t{1} << 60;

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::uint64_t> NumberIn(const std::string& path) {
  const std::string text = TextOf(path);
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || number >= kNoLimitFrom) return std::nullopt;
  return number;
}

// A group's own limit and those of the groups that it is in. A container may see no other group
// than its own, at the mount point, whatever the name that it is told.
void LookUp(const std::string& mount, std::string group, const std::string& file,
            std::optional<std::uint64_t>& least) {
  for (;;) {
    if (const auto limit = NumberIn(mount + group + "/" + file)) {
      least = std::min(least.value_or(*limit), *limit);
    }
    const auto slash = group.rfind('/');
    if (slash == std::string::npos) return;
    group.resize(slash);
  }
}

bool Lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const auto comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> MemoryLimitOf(std::string_view groups, const std::string& mounts) {
  std::optional<std::uint64_t> least;
  while (!groups.empty()) {
    const auto end = std::min(groups.find('\n'), groups.size());
    const std::string_view line = groups.substr(0, end);
    groups.remove_prefix(std::min(end + 1, groups.size()));
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      LookUp(mounts, group, "memory.max", least);
      LookUp(mounts + "/unified", group, "memory.max", least);
    } else if (Lists(controllers, "memory")) {
      LookUp(mounts + "/memory", group, "memory.limit_in_bytes", least);
    }
  }
  return least;
}

std::optional<std::uint64_t> MemoryLimit() {
  return MemoryLimitOf(TextOf("/proc/self/cgroup"), "/sys/fs/cgroup");
}

std::size_t CallMemoryFor(std::optional<std::uint64_t> memory_limit) {
  if (!memory_limit) return limits::kCallMemoryBytes;
  return std::max(static_cast<std::size_t>(*memory_limit / 8 * 3), limits::kCallMemoryBytesMin);
}

}  // namespace recourse
