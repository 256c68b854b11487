#include "policy/model/route_table.h"

#include <algorithm>

#include "policy/model/host_table.h"
#include "policy/model/route_tree.h"
#include "policy/model/tool_names.h"
#include "policy/model/treatment.h"
#include "policy/uri/path.h"
#include "policy/uri/path_readings.h"
#include "policy/uri/path_variants.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

bool HasUpper(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool HasLower(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string ToUpper(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return upper;
}

struct BackendRoutes {
  RouteTree exact{RouteTree::OnSame::kKeepFirst};
  RouteTree folded{RouteTree::OnSame::kKeepStrictest};  // literals in the form of FoldPath
  bool needs_fold = false;                              // some literal is not in that form already
  bool has_final_slash = false;                         // of some pattern
  bool is_intercepted = false;
  TextMap<const Tool*> called_names;
  // The one with the most literal characters first. Those that overlap were told apart by the
  // loader.
  std::vector<std::pair<std::string, const Tool*>> mcp_globs;
  McpTwins mcp_twins;
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
  // A method, judged by the routes of one backend.
  struct Judge {
    const Impl& all;
    const Backend& backend;
    const BackendRoutes& table;
    std::string_view method;

    struct Judged {
      int strictness = 0;
      bool is_settled = false;  // denied, or the policy names this very path
    };
    // Of this one reading.
    Judged Take(std::string_view path, RouteMatch& match) const;
    // What is stricter than that for a server that reads the path loosely; nullptr: nothing.
    const Tool* StricterReading(std::string_view path, int strictness) const;
    std::expected<void, CallRefusal> CheckLoose(const RouteMatch& match, Judged judged) const;
    std::expected<void, CallRefusal> CheckDoubt(const RouteMatch& match, Judged judged,
                                                std::string_view path,
                                                std::string_view doubt) const;
    // `path` as it came, and why it has more readings than that of `match`.
    std::expected<void, CallRefusal> CheckReadings(const RouteMatch& match, std::string_view path,
                                                   std::string_view doubt) const;
  };
};

void RouteTable::Impl::AddTool(const Tool& tool) {
  tools.emplace(tool.name, &tool);
  if (!tool.mcp_names.empty()) AddMcpNames(tool);
  for (const std::string& name : tool.mutations) {
    routes[tool.backend].called_names.emplace(name, &tool);
  }
  if (tool.patterns.empty())
    return;  // called by name, or refused by the loader, which looks on for problems
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
    table.mcp_twins.Add(name, tool);
    if (!IsMcpGlob(name)) {
      table.called_names.emplace(name, &tool);
      continue;
    }
    const auto place = std::upper_bound(table.mcp_globs.begin(), table.mcp_globs.end(), name,
                                        [](const std::string& one, const auto& other) {
                                          return McpLiterals(one) > McpLiterals(other.first);
                                        });
    table.mcp_globs.emplace(place, name, &tool);
  }
}

const Tool* RouteTable::Impl::Judge::StricterReading(std::string_view path, int strictness) const {
  const PathVariants readings(path);
  const bool fold = table.needs_fold || HasUpper(path) || path.find('%') != std::string_view::npos;
  const bool has_loose_segments =
      path.find("./") != std::string_view::npos || path.find("%20/") != std::string_view::npos;
  const bool adds_slash = table.has_final_slash && !path.ends_with('/');
  const std::vector<std::string> scripts = ScriptReadings(path);
  if (readings.size() == 1 && !fold && !has_loose_segments && !adds_slash && scripts.empty()) {
    return nullptr;
  }
  RouteTree::Found found;
  const auto is_stricter = [&](const RouteTree& tree, std::string_view reading) {
    return tree.Find(reading, method, found) && StrictnessOf(*found.entry->tool) > strictness;
  };
  const auto any_is_stricter = [&](const PathVariants& loose) {
    return std::any_of(loose.begin(), loose.end(), [&](std::string_view reading) {
      return is_stricter(table.exact, reading) ||
             (fold && is_stricter(table.folded, FoldPath(reading)));
    });
  };
  const std::string trimmed = has_loose_segments ? TrimSegments(path) : std::string();
  if (any_is_stricter(readings) ||
      (adds_slash && any_is_stricter(PathVariants(std::string(path) + '/'))) ||
      (has_loose_segments && any_is_stricter(PathVariants(trimmed))) ||
      std::ranges::any_of(scripts, [&](const std::string& script) {
        return any_is_stricter(PathVariants(script));
      })) {
    return found.entry->tool;
  }
  return nullptr;
}

RouteTable::Impl::Judge::Judged RouteTable::Impl::Judge::Take(std::string_view path,
                                                              RouteMatch& match) const {
  match.tool = nullptr;
  match.unlisted = UnlistedRule::kDeny;
  match.capture_count = 0;
  match.backend = &backend;
  match.path = path;
  RouteTree::Found found;
  if (table.exact.Find(path, method, found)) {
    match.tool = found.entry->tool;
    match.effect = match.tool->effect;
    match.capture_count = found.value_count;
    for (std::size_t i = 0; i < found.value_count; ++i) {
      match.captures[i] = {found.entry->names[i], found.values[i]};
    }
    return {StrictnessOf(*match.tool), found.entry->is_literal};
  }
  match.effect = IsReadMethod(method) ? Effect::kRead : Effect::kWrite;
  match.unlisted = match.effect == Effect::kRead ? all.unlisted_reads : all.unlisted_writes;
  // Beside the endpoint of an MCP server may be another door to its tools.
  if (match.effect == Effect::kWrite && all.hosts.EndpointsAt(backend) != nullptr) {
    match.unlisted = UnlistedRule::kDeny;
  }
  return {match.unlisted == UnlistedRule::kGuard ? kGuardedStrictness : 0,
          match.unlisted == UnlistedRule::kDeny};
}

std::expected<void, CallRefusal> RouteTable::Impl::Judge::CheckLoose(const RouteMatch& match,
                                                                     Judged judged) const {
  if (judged.is_settled) return {};
  const Tool* const stricter = StricterReading(match.path, judged.strictness);
  if (stricter == nullptr) return {};
  return std::unexpected(CallRefusal(
      ErrorCode::kAmbiguousPath,
      "the path is " + TreatmentInWords(match) +
          ", and read in another case, with other escapes, without a trailing slash, dot, space "
          "or extension, or as a script and its PATH_INFO it is the stricter " +
          TreatmentInWords(*stricter)));
}

std::expected<void, CallRefusal> RouteTable::Impl::Judge::CheckReadings(
    const RouteMatch& match, std::string_view path, std::string_view doubt) const {
  const auto readings = PathReadings(path);
  if (!readings) return std::unexpected(CallRefusal(readings.error()));
  for (const PathReading& reading : *readings) {
    RouteMatch other;
    const Judged of_other = Take(reading.path, other);
    if (!IsTreatedAlike(match, other, reading.has_moved ? Alike::kByTool : Alike::kByEffect)) {
      return std::unexpected(CallRefusal(
          ErrorCode::kAmbiguousPath,
          std::string(doubt) + ": as it is written it is " + TreatmentInWords(match) +
              ", and to a server that reads it otherwise " +
              (match.tool == other.tool && match.tool != nullptr ? "the same tool with other values"
                                                                 : TreatmentInWords(other))));
    }
    if (const auto checked = CheckLoose(other, of_other); !checked) return checked;
  }
  return {};
}

// An escaped slash is no doubt to a backend that is known to keep it.
std::expected<void, CallRefusal> RouteTable::Impl::Judge::CheckDoubt(const RouteMatch& match,
                                                                     Judged judged,
                                                                     std::string_view path,
                                                                     std::string_view doubt) const {
  const std::string hidden =
      backend.keeps_escaped_slash ? WithHiddenSlashes(match.path) : std::string();
  if (hidden.empty()) return CheckReadings(match, path, doubt);
  std::string scratch;
  const auto form = FormOf(hidden, scratch);
  if (!form) return std::unexpected(CallRefusal(form.error()));
  RouteMatch same;
  (void)Take(form->path, same);
  if (same.tool != match.tool) return CheckReadings(match, path, doubt);
  if (form->doubt.empty()) return CheckLoose(match, judged);
  return CheckReadings(same, hidden, form->doubt);
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

EndpointPlace RouteTable::Place(std::string_view authority, std::uint16_t default_port,
                                std::string_view path) const {
  const HostGroup* const group = FindHost(authority, default_port);
  return group == nullptr ? EndpointPlace() : PlaceIn(*group, path);
}

const HostGroup* RouteTable::FindHost(std::string_view authority,
                                      std::uint16_t default_port) const {
  return impl_->hosts.FindHost(authority, default_port);
}

EndpointPlace RouteTable::PlaceIn(const HostGroup& group, std::string_view path) const {
  return impl_->hosts.PlaceIn(group, path);
}

EndpointPlace RouteTable::PlaceAtUrl(const Backend& backend, std::string_view path) const {
  return impl_->hosts.PlaceAtUrl(backend, path);
}

const Endpoints* RouteTable::EndpointsAt(const Backend& backend) const {
  return impl_->hosts.EndpointsAt(backend);
}

bool RouteTable::Intercepts(const Backend& backend) const {
  return backend.scheme == "https" &&
         impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)].is_intercepted;
}

const Tool* RouteTable::FindCalledTool(const Backend& backend, std::string_view name) const {
  const auto& table = impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)];
  if (const auto exact = table.called_names.find(name); exact != table.called_names.end()) {
    return exact->second;
  }
  for (const auto& [glob, tool] : table.mcp_globs) {
    if (MatchesMcpGlob(glob, name)) return tool;
  }
  return nullptr;
}

McpTwins::Named RouteTable::StricterMcpTwin(const Backend& backend, std::string_view name,
                                            int strictness) const {
  const auto& table = impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)];
  if (table.called_names.contains(name)) return {};  // nothing is left to interpret
  return table.mcp_twins.StricterThan(strictness, name);
}

// Methods have a case (RFC 9110 9.1), and some servers take `post` for POST all the same.
std::expected<void, CallRefusal> RouteTable::CheckUpperMethod(const RouteMatch& match,
                                                              std::string_view method,
                                                              std::string_view path) const {
  const std::string upper = ToUpper(method);
  std::string scratch;
  RouteMatch other;
  const auto found = Match(*match.backend, upper, path, scratch, other);
  if (found && IsTreatedAlike(match, other, Alike::kByTool)) return {};
  return std::unexpected(CallRefusal(ErrorCode::kMalformedRequest,
                                     "methods have a case (RFC 9110 9.1), and some servers take " +
                                         std::string(method) + " for " + upper + ", which " +
                                         (found ? "is " + TreatmentInWords(other)
                                                : "is refused here: " + found.error().detail())));
}

const Tool* RouteTable::FindTool(std::string_view name) const {
  const auto found = impl_->tools.find(name);
  return found == impl_->tools.end() ? nullptr : found->second;
}

std::expected<void, CallRefusal> RouteTable::Match(const Backend& backend, std::string_view method,
                                                   std::string_view path, std::string& scratch,
                                                   RouteMatch& match) const {
  const auto form = FormOf(path, scratch);
  if (!form) return std::unexpected(CallRefusal(form.error()));
  const auto& table = impl_->routes[static_cast<std::size_t>(&backend - impl_->first_backend)];
  const Impl::Judge judge{*impl_, backend, table, method};
  const auto judged = judge.Take(form->path, match);
  match.sent = path;
  if (HasLower(method)) {
    if (auto checked = CheckUpperMethod(match, method, path); !checked) return checked;
  }
  if (match.tool == nullptr && match.unlisted == UnlistedRule::kDeny) return {};
  if (!form->doubt.empty()) return judge.CheckDoubt(match, judged, path, form->doubt);
  if (form->path.data() != path.data()) {
    RouteMatch literal;
    (void)judge.Take(path, literal);
    if (!IsTreatedAlike(match, literal, Alike::kByEffect)) match.sent = match.path;
  }
  return judge.CheckLoose(match, judged);
}

}  // namespace recourse
