#include "policy/route_table.h"

#include <algorithm>

#include "policy/host_table.h"
#include "policy/mcp_names.h"
#include "policy/path.h"
#include "policy/readings.h"
#include "policy/route_tree.h"
#include "proxy/base/http_message.h"

namespace recourse {
namespace {

// Between the strictness of a read (0) and of a write tool (2): an unlisted write that is guarded.
constexpr int kGuardedStrictness = 1;

bool HasUpper(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

struct BackendRoutes {
  RouteTree exact{RouteTree::OnSame::kKeepFirst};
  RouteTree folded{RouteTree::OnSame::kKeepStrictest};  // literals in the form of FoldPath
  bool needs_fold = false;                              // some literal is not in that form already
  bool has_final_slash = false;                         // of some pattern
  bool is_intercepted = false;
  TextMap<const Tool*> mcp_names;
  // The one with the most literal characters first. Those that overlap were told apart by the
  // loader.
  std::vector<std::pair<std::string, const Tool*>> mcp_globs;
};

}  // namespace

struct RouteTable::Impl {
  explicit Impl(const std::vector<Backend>& backends) : hosts(backends) {}

  const HostTable hosts;
  TextMap<const Tool*> tools;
  std::vector<BackendRoutes> routes;  // by index of the backend
  const Backend* first_backend = nullptr;
  UnlistedRule unlisted_reads = UnlistedRule::kPass;
  UnlistedRule unlisted_writes = UnlistedRule::kGuard;

  void AddTool(const Tool& tool);
  void AddMcpNames(const Tool& tool);
  bool HasStricterReading(const BackendRoutes& table, std::string_view path,
                          std::string_view method, int strictness) const;
};

void RouteTable::Impl::AddTool(const Tool& tool) {
  tools.emplace(tool.name, &tool);
  if (!tool.mcp_names.empty()) AddMcpNames(tool);
  if (tool.patterns.empty()) return;  // MCP, or refused by the loader, which looks on for problems
  BackendRoutes& table = routes[tool.backend];
  for (const std::string& text : tool.patterns) {
    table.has_final_slash = table.has_final_slash || text.ends_with('/');
    const RoutePattern pattern = ParsePattern(text);
    RoutePattern folded = pattern;
    for (auto& segment : folded.segments) {
      if (segment.is_capture) continue;
      segment.text = FoldPath(segment.text);
    }
    for (std::size_t i = 0; i < folded.segments.size(); ++i) {
      table.needs_fold = table.needs_fold || folded.segments[i].text != pattern.segments[i].text;
    }
    for (const std::string& method : tool.methods) {
      table.exact.Add(pattern, method, &tool);
      table.folded.Add(folded, method, &tool);
    }
  }
}

void RouteTable::Impl::AddMcpNames(const Tool& tool) {
  BackendRoutes& table = routes[tool.backend];
  for (const std::string& name : tool.mcp_names) {
    if (!IsMcpGlob(name)) {
      table.mcp_names.emplace(name, &tool);
      continue;
    }
    const auto place = std::upper_bound(table.mcp_globs.begin(), table.mcp_globs.end(), name,
                                        [](const std::string& one, const auto& other) {
                                          return McpLiterals(one) > McpLiterals(other.first);
                                        });
    table.mcp_globs.emplace(place, name, &tool);
  }
}

bool RouteTable::Impl::HasStricterReading(const BackendRoutes& table, std::string_view path,
                                          std::string_view method, int strictness) const {
  const Readings readings(path);
  const bool fold = table.needs_fold || HasUpper(path) || path.find('%') != std::string_view::npos;
  const bool has_loose_segments =
      path.find("./") != std::string_view::npos || path.find("%20/") != std::string_view::npos;
  const bool adds_slash = table.has_final_slash && !path.ends_with('/');
  if (readings.size() == 1 && !fold && !has_loose_segments && !adds_slash) return false;
  RouteTree::Found found;
  const auto is_stricter = [&](const RouteTree& tree, std::string_view reading) {
    return tree.Find(reading, method, found) && StrictnessOf(*found.entry->tool) > strictness;
  };
  const auto any_is_stricter = [&](const Readings& all) {
    return std::any_of(all.begin(), all.end(), [&](std::string_view reading) {
      return is_stricter(table.exact, reading) ||
             (fold && is_stricter(table.folded, FoldPath(reading)));
    });
  };
  if (any_is_stricter(readings)) return true;
  if (adds_slash && any_is_stricter(Readings(std::string(path) + '/'))) return true;
  if (!has_loose_segments) return false;
  const std::string trimmed = TrimSegments(path);
  return any_is_stricter(Readings(trimmed));
}

RouteTable::RouteTable(const Policy& policy, const std::vector<std::size_t>& intercepted)
    : impl_(std::make_unique<Impl>(policy.backends)) {
  impl_->unlisted_reads = policy.unlisted_reads;
  impl_->unlisted_writes = policy.unlisted_writes;
  impl_->first_backend = policy.backends.data();
  impl_->routes.resize(policy.backends.size());
  for (const std::size_t index : intercepted) impl_->routes[index].is_intercepted = true;
  for (const Tool& tool : policy.tools) impl_->AddTool(tool);
}

RouteTable::~RouteTable() = default;

const Backend* RouteTable::FindBackend(std::string_view authority,
                                       std::uint16_t default_port) const {
  return impl_->hosts.Find(authority, default_port);
}

McpPlace RouteTable::Place(std::string_view authority, std::uint16_t default_port,
                           std::string_view path) const {
  const HostGroup* const group = FindHost(authority, default_port);
  return group == nullptr ? McpPlace() : PlaceIn(*group, path);
}

const HostGroup* RouteTable::FindHost(std::string_view authority,
                                      std::uint16_t default_port) const {
  return impl_->hosts.FindHost(authority, default_port);
}

McpPlace RouteTable::PlaceIn(const HostGroup& group, std::string_view path) const {
  return impl_->hosts.PlaceIn(group, path);
}

McpPlace RouteTable::PlaceAtUrl(const Backend& backend, std::string_view path) const {
  return impl_->hosts.PlaceAtUrl(backend, path);
}

const McpEndpoints* RouteTable::EndpointsAt(const Backend& backend) const {
  return impl_->hosts.EndpointsAt(backend);
}

bool RouteTable::Intercepts(const Backend& backend) const {
  return backend.scheme == "https" &&
         impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)].is_intercepted;
}

const Tool* RouteTable::FindMcpTool(const Backend& backend, std::string_view name) const {
  const auto& table = impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)];
  if (const auto exact = table.mcp_names.find(name); exact != table.mcp_names.end()) {
    return exact->second;
  }
  for (const auto& [glob, tool] : table.mcp_globs) {
    if (MatchesMcpGlob(glob, name)) return tool;
  }
  return nullptr;
}

const Tool* RouteTable::FindTool(std::string_view name) const {
  const auto found = impl_->tools.find(name);
  return found == impl_->tools.end() ? nullptr : found->second;
}

Result<void> RouteTable::Match(const Backend& backend, std::string_view method,
                               std::string_view path, std::string& scratch,
                               RouteMatch& match) const {
  const auto canonical = CanonicalPath(path, scratch);
  if (!canonical) return std::unexpected(canonical.error());
  const auto& table = impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)];
  match.tool = nullptr;
  match.unlisted = UnlistedRule::kDeny;
  match.capture_count = 0;
  match.backend = &backend;
  match.path = *canonical;
  RouteTree::Found found;
  int strictness = 0;
  if (table.exact.Find(match.path, method, found)) {
    match.tool = found.entry->tool;
    match.effect = match.tool->effect;
    strictness = StrictnessOf(*match.tool);
    match.capture_count = found.value_count;
    for (std::size_t i = 0; i < found.value_count; ++i) {
      match.captures[i] = {found.entry->names[i], found.values[i]};
    }
    // The policy names this very path: nothing is left to interpret.
    if (found.entry->is_literal) return {};
  } else {
    match.effect = IsReadMethod(method) ? Effect::kRead : Effect::kWrite;
    match.unlisted = match.effect == Effect::kRead ? impl_->unlisted_reads : impl_->unlisted_writes;
    // Beside the endpoint of an MCP server may be another door to its tools.
    if (match.effect == Effect::kWrite && EndpointsAt(backend) != nullptr) {
      match.unlisted = UnlistedRule::kDeny;
    }
    if (match.unlisted == UnlistedRule::kDeny) return {};
    strictness = match.unlisted == UnlistedRule::kGuard ? kGuardedStrictness : 0;
  }
  if (impl_->HasStricterReading(table, match.path, method, strictness)) {
    return std::unexpected(Error(ErrorCode::kAmbiguousPath,
                                 "another reading of the path (case, escapes, trailing slash, "
                                 "dot, space or extension) falls under a stricter rule"));
  }
  return {};
}

}  // namespace recourse
