// How much memory this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

// The smallest limit of the control groups that `groups` (/proc/self/cgroup) names, their parents
// included, of either version; nullopt: there is none. `mounts` is where the kernel shows them.
std::optional<std::uint64_t> MemoryLimitOf(std::string_view groups, const std::string& mounts);
// Of this process.
std::optional<std::uint64_t> MemoryLimit();

// What calls may hold of it.
std::size_t CallMemoryFor(std::optional<std::uint64_t> memory_limit);

}  // namespace recourse
