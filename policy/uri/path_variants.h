// The other readings of a path that servers are known to take. Pure.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// `path` without the dots and spaces at its end.
std::string_view TrimTail(std::string_view path);

// Every segment without the dots and spaces at its end, as Windows servers read it.
std::string TrimSegments(std::string_view path);

// What servers make of a path that goes on behind the name of a script (PATH_INFO, RFC 3875 4.1.5):
// it runs that script, which may serve what follows as if it stood alone, or in the script's place.
// Each with its final slash, if there is one. Empty for most paths.
std::vector<std::string> ScriptReadings(std::string_view path);

// Of a canonical path: itself, without its trailing slash, without dots and spaces at the end,
// without its extension. At most six, views of `path`.
class PathVariants {
 public:
  explicit PathVariants(std::string_view path);
  const std::string_view* begin() const { return all_.data(); }
  const std::string_view* end() const { return all_.data() + count_; }
  std::size_t size() const { return count_; }

 private:
  void Add(std::string_view path);
  std::array<std::string_view, 6> all_;
  std::size_t count_ = 0;
};

}  // namespace recourse
