// Calls by the paths they went to: which segments name one thing, and which belong to the API.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "policy/suggest/sighting.h"

namespace recourse {

// An operation that a description of the API names.
struct KnownOperation {
  std::string method, path, name;  // path: with captures in braces
};

struct SeenTool {
  std::string backend, method;
  std::vector<std::string> segments;  // a capture is "{name}"
  std::string name;                   // by the description, or empty
  std::vector<std::size_t> calls;     // indices of sightings, by time
  bool is_read_only = false;          // says its MCP server

  std::string Pattern() const;  // "/orders/{id}"
  // Of an MCP server: its name is the only segment.
  bool IsMcp() const { return method == kToolsCall; }
  std::string Match() const;  // "POST shop /orders", "tools/call shop create_order"
  bool IsRead() const {
    return IsMcp() ? is_read_only : method == "GET" || method == "HEAD" || method == "OPTIONS";
  }
};

inline bool NamesOne(std::string_view segment) { return segment.starts_with('{'); }
// "id" of "{id}".
inline std::string_view CaptureName(std::string_view segment) {
  return segment.substr(1, segment.size() - 2);
}

// `seen` is ordered by time. A word in a path counts as a name where several of them stood in
// answers before, all at one place, or where one is shown to be (told_names.h). By backend, path
// and method.
std::vector<SeenTool> ToolsOf(const std::vector<Sighting>& seen,
                              const std::vector<KnownOperation>& known);

}  // namespace recourse
