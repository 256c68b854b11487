#include "policy/route_table.h"

#include <algorithm>
#include <charconv>

#include "policy/mcp_names.h"
#include "policy/path.h"
#include "policy/readings.h"
#include "policy/route_tree.h"

namespace recourse {
namespace {

constexpr std::size_t kAuthorityBytesMax = limits::kHostBytesMax + 8;

// Between the strictness of a read (0) and of a write tool (2): an unlisted write that is guarded.
constexpr int kGuardedStrictness = 1;

bool HasUpper(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool IsReadMethod(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

// The host and the port of an authority; port is empty when there is none.
struct HostPort {
  std::string_view host, port;
};
HostPort SplitAuthority(std::string_view authority) {
  const auto bracket = authority.rfind(']');
  const auto colon = authority.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket)) {
    return {authority, {}};
  }
  return {authority.substr(0, colon), authority.substr(colon + 1)};
}

// An authority in lower case, built on the stack.
class AuthorityKey {
 public:
  void Append(std::string_view text) {
    for (const char c : text) {
      if (size_ == bytes_.size()) return;
      bytes_[size_++] = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    }
  }
  void AppendPort(std::uint16_t port) {
    Append(":");
    const auto end = std::to_chars(bytes_.data() + size_, bytes_.data() + bytes_.size(), port);
    size_ = static_cast<std::size_t>(end.ptr - bytes_.data());
  }
  void Resize(std::size_t size) { size_ = size; }
  std::size_t size() const { return size_; }
  std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, kAuthorityBytesMax + 8> bytes_;
  std::size_t size_ = 0;
};

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
  TextMap<const Backend*> by_host_port;  // "orders:8080"
  TextMap<const Backend*> by_bare_url;   // urls without port, whatever the port of the request
  TextMap<const Backend*> by_host;       // entries of `hosts` without port
  TextMap<const Tool*> tools;
  std::vector<BackendRoutes> routes;  // by index of the backend
  const Backend* first_backend = nullptr;
  UnlistedRule unlisted_reads = UnlistedRule::kPass;
  UnlistedRule unlisted_writes = UnlistedRule::kGuard;

  void AddBackend(const Backend& backend);
  void AddTool(const Tool& tool);
  void AddMcpNames(const Tool& tool);
  bool HasStricterReading(const BackendRoutes& table, std::string_view path,
                          std::string_view method, int strictness) const;
};

void RouteTable::Impl::AddBackend(const Backend& backend) {
  const bool is_v6 = backend.host.find(':') != std::string::npos;
  const std::string host = is_v6 ? '[' + backend.host + ']' : backend.host;
  by_host_port.emplace(host + ':' + std::to_string(backend.port), &backend);
  if (backend.authority == host) by_bare_url.emplace(host, &backend);
  for (const std::string& entry : backend.hosts) {
    const std::string lower = ToLower(entry);
    (SplitAuthority(lower).port.empty() ? by_host : by_host_port).emplace(lower, &backend);
  }
}

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
    : impl_(std::make_unique<Impl>()) {
  impl_->unlisted_reads = policy.unlisted_reads;
  impl_->unlisted_writes = policy.unlisted_writes;
  impl_->first_backend = policy.backends.data();
  impl_->routes.resize(policy.backends.size());
  for (const std::size_t index : intercepted) impl_->routes[index].is_intercepted = true;
  for (const Backend& backend : policy.backends) impl_->AddBackend(backend);
  for (const Tool& tool : policy.tools) impl_->AddTool(tool);
}

RouteTable::~RouteTable() = default;

const Backend* RouteTable::FindBackend(std::string_view authority,
                                       std::uint16_t default_port) const {
  if (authority.empty() || authority.size() > kAuthorityBytesMax) return nullptr;
  const auto [host, port] = SplitAuthority(authority);
  AuthorityKey key;
  key.Append(host);
  const std::size_t host_size = key.size();
  if (port.empty()) {
    key.AppendPort(default_port);
  } else {
    key.Append(":");
    key.Append(port);
  }
  const auto find = [](const TextMap<const Backend*>& map, std::string_view name) {
    const auto found = map.find(name);
    return found == map.end() ? nullptr : found->second;
  };
  if (const Backend* backend = find(impl_->by_host_port, key.view())) return backend;
  key.Resize(host_size);
  if (port.empty() && host.size() == authority.size()) {
    if (const Backend* backend = find(impl_->by_bare_url, key.view())) return backend;
  }
  return find(impl_->by_host, key.view());
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

Result<RouteMatch> RouteTable::Match(const Backend& backend, std::string_view method,
                                     std::string_view path, std::string& scratch) const {
  const auto canonical = CanonicalPath(path, scratch);
  if (!canonical) return std::unexpected(canonical.error());
  const auto& table = impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)];
  RouteMatch match;
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
    if (found.entry->is_literal) return match;
  } else {
    match.effect = IsReadMethod(method) ? Effect::kRead : Effect::kWrite;
    match.unlisted = match.effect == Effect::kRead ? impl_->unlisted_reads : impl_->unlisted_writes;
    // Beside the endpoint of an MCP server may be another door to its tools.
    if (backend.is_mcp && match.effect == Effect::kWrite) match.unlisted = UnlistedRule::kDeny;
    if (match.unlisted == UnlistedRule::kDeny) return match;
    strictness = match.unlisted == UnlistedRule::kGuard ? kGuardedStrictness : 0;
  }
  if (impl_->HasStricterReading(table, match.path, method, strictness)) {
    return std::unexpected(Error(ErrorCode::kAmbiguousPath,
                                 "another reading of the path (case, escapes, trailing slash, dot, "
                                 "space or extension) falls "
                                 "under a stricter rule"));
  }
  return match;
}

}  // namespace recourse
