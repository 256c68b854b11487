#include "policy/mcp_endpoint.h"

#include <algorithm>
#include <string>

#include "policy/path.h"
#include "policy/readings.h"

namespace recourse {
namespace {

std::string_view WithoutSlash(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

McpPath McpPathOf(const Backend& backend, std::string_view path) {
  if (path == backend.mcp_path) return McpPath::kExact;
  std::string scratch;
  const auto canonical = CanonicalPath(path, scratch);
  if (!canonical) return McpPath::kOther;
  const std::string endpoint = FoldPath(WithoutSlash(backend.mcp_path));
  const auto is_endpoint = [&](std::string_view reading) {
    return FoldPath(WithoutSlash(reading)) == endpoint;
  };
  const Readings readings(*canonical);
  const std::string trimmed = TrimSegments(*canonical);
  const Readings of_trimmed(trimmed);
  return std::any_of(readings.begin(), readings.end(), is_endpoint) ||
                 std::any_of(of_trimmed.begin(), of_trimmed.end(), is_endpoint)
             ? McpPath::kAmbiguous
             : McpPath::kOther;
}

}  // namespace recourse
