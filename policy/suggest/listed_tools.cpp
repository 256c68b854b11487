#include "policy/suggest/listed_tools.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace recourse {
namespace {

std::vector<std::string_view> PatternSegments(std::string_view pattern) {
  std::vector<std::string_view> segments;
  while (pattern.starts_with('/')) {
    pattern.remove_prefix(1);
    const auto end = std::min(pattern.find('/'), pattern.size());
    segments.push_back(pattern.substr(0, end));
    pattern.remove_prefix(end);
  }
  return segments;
}

// The number of literal segments, the better the more; nullopt: it matches other paths.
std::optional<std::size_t> Fit(std::string_view pattern, const SeenTool& tool) {
  const auto segments = PatternSegments(pattern);
  std::size_t literals = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] == "**") return literals;
    if (i >= tool.segments.size()) return std::nullopt;
    if (NamesOne(segments[i])) continue;
    if (segments[i] != tool.segments[i]) return std::nullopt;
    ++literals;
  }
  return segments.size() == tool.segments.size() ? std::optional(literals) : std::nullopt;
}

bool IsMcpName(std::string_view glob, std::string_view name) {
  const auto star = glob.find('*');
  if (star == std::string_view::npos) return glob == name;
  return name.size() + 1 >= glob.size() && name.starts_with(glob.substr(0, star)) &&
         name.ends_with(glob.substr(star + 1));
}

std::optional<std::size_t> Fit(const Tool& listed, const SeenTool& tool) {
  std::optional<std::size_t> best;
  const auto better = [&](std::optional<std::size_t> fit) {
    if (fit && (!best || *fit > *best)) best = fit;
  };
  if (tool.IsMcp()) {
    for (const std::string& glob : listed.mcp_names) {
      if (IsMcpName(glob, tool.segments.front())) better(glob.size());
    }
    return best;
  }
  const bool is_method = std::ranges::any_of(listed.methods, [&](const std::string& method) {
    return method == "*" || method == tool.method;
  });
  for (const std::string& pattern : listed.patterns) {
    if (is_method) better(Fit(pattern, tool));
  }
  return best;
}

// "path.id" of the segment that the policy names otherwise; empty: it names none.
std::string CaptureIn(const Tool& listed, const SeenTool& tool, std::string_view name) {
  for (const std::string& pattern : listed.patterns) {
    const auto segments = PatternSegments(pattern);
    for (std::size_t i = 0; i < std::min(segments.size(), tool.segments.size()); ++i) {
      if (!NamesOne(segments[i]) || CaptureName(segments[i]) != name) continue;
      if (!NamesOne(tool.segments[i])) return {};
      return "path." + std::string(CaptureName(tool.segments[i]));
    }
  }
  return {};
}

}  // namespace

const Tool* ListedTool(const Policy& policy, const std::vector<Sighting>& seen,
                       const SeenTool& tool) {
  for (const std::size_t call : tool.calls) {
    if (seen[call].tool.empty()) continue;
    if (const Tool* const named = policy.FindTool(seen[call].tool)) return named;
  }
  const Tool* best = nullptr;
  std::optional<std::size_t> best_fit;
  for (const Tool& listed : policy.tools) {
    if (policy.backends[listed.backend].name != tool.backend) continue;
    const auto fit = Fit(listed, tool);
    if (!fit || (best_fit && *fit <= *best_fit)) continue;
    best = &listed;
    best_fit = fit;
  }
  return best;
}

bool TakeIdentityOf(const Tool& listed, const SeenTool& tool, SuggestedIdentity& identity) {
  identity.identity.clear();
  identity.ignore = listed.ignore;
  for (const Selector& place : listed.identity) {
    switch (place.source) {
      case Selector::Source::kPath:
        if (auto capture = CaptureIn(listed, tool, place.name); !capture.empty()) {
          identity.identity.push_back(std::move(capture));
        }
        break;
      case Selector::Source::kBody:
        identity.identity.push_back("body#" + place.name);
        break;
      case Selector::Source::kQuery:
        identity.identity.push_back("query." + place.name);
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace recourse
