// From authority, method and path to a tool. One canonical path form, no regex; cost does not grow
// with the number of routes (a hash map per path segment).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/call_refusal.h"
#include "policy/model/endpoint.h"
#include "policy/model/mcp_twins.h"
#include "policy/model/policy.h"

namespace recourse {

inline constexpr std::size_t kCapturesMax = 8;

struct RouteMatch {
  const Backend* backend = nullptr;
  const Tool* tool = nullptr;  // nullptr: no tool matches, see `unlisted`
  Effect effect = Effect::kWrite;
  UnlistedRule unlisted = UnlistedRule::kDeny;  // meaningful when tool is nullptr
  // In the form in which paths are compared (PathForm): a view of the input when nothing had to
  // change, else of `scratch`.
  std::string_view path;
  // What goes on: the input, or `path` where a server that decodes nothing would find another rule.
  std::string_view sent;
  // Captured segments, still percent-encoded, views of `path`. Names belong to the policy.
  struct Capture {
    std::string_view name, value;
  };
  std::array<Capture, kCapturesMax> captures;  // the first capture_count of them
  std::size_t capture_count = 0;
};

struct HostGroup;  // the backends that share an authority, in the order of their policy

class RouteTable {
 public:
  // `policy` must outlive the table. Routes that are ambiguous were refused by the loader.
  // `intercepted` are the indexes of its backends with `intercept`.
  explicit RouteTable(const Policy& policy, const std::vector<std::size_t>& intercepted = {});
  ~RouteTable();

  // `authority` as in Host, any case, with or without port. nullptr: unknown. `default_port` is
  // what an authority without port means (80). No allocation for lower-case input.
  // Several backends may have one authority, told apart by the path: then it is the one that serves
  // what is no endpoint of an MCP server.
  const Backend* FindBackend(std::string_view authority, std::uint16_t default_port) const;

  // Who serves a path under that authority, and whether it is an endpoint of an MCP server.
  // kAmbiguous: it may be taken for that endpoint, or leads to it behind another backend's url or
  // name, and must not be passed on. A null backend: nobody has the authority.
  EndpointPlace Place(std::string_view authority, std::uint16_t default_port,
                      std::string_view path) const;
  // The same in two steps, of which the first is the dearer one. nullptr: nobody has the authority.
  const HostGroup* FindHost(std::string_view authority, std::uint16_t default_port) const;
  EndpointPlace PlaceIn(const HostGroup& group, std::string_view path) const;
  // The same under the authority of that backend's url.
  EndpointPlace PlaceAtUrl(const Backend& backend, std::string_view path) const;

  // The endpoints of MCP servers at the host and port of that backend's url; nullptr: none.
  const Endpoints* EndpointsAt(const Backend& backend) const;

  // Whether agents' own TLS to that backend of the policy, which is an https one, ends here.
  bool Intercepts(const Backend& backend) const;

  // The tool of the policy for calls of that backend's MCP tool, or of the field of a mutation,
  // `name`: the exact name before globs, of globs the one with the most literal characters.
  // nullptr: none.
  const Tool* FindCalledTool(const Backend& backend, std::string_view name) const;

  // The tool of that backend, stricter than that, for which some server could take `name`, unless
  // the policy has that very name.
  McpTwins::Named StricterMcpTwin(const Backend& backend, std::string_view name,
                                  int strictness) const;

  // The tool of that name, or nullptr.
  const Tool* FindTool(std::string_view name) const;

  // `path` is the target without query. Fails with what FormOf fails with, and with kAmbiguousPath
  // when one of its PathReadings is treated otherwise than the path itself, or when another case,
  // other escapes, a trailing slash, final dots or spaces, or an extension bring it under a
  // stricter rule; the reason names both. With kMalformedRequest when the method has lower-case
  // letters and is treated otherwise in upper case. Reads of plain paths do not allocate.
  // Thread-safe. It judges paths that are no endpoint of an MCP server (see Place): where the
  // server has one, unlisted writes beside it are denied, whatever `unlisted` says.
  std::expected<RouteMatch, CallRefusal> Match(const Backend& backend, std::string_view method,
                                               std::string_view path, std::string& scratch) const {
    std::expected<RouteMatch, CallRefusal> match(std::in_place);
    std::expected<void, CallRefusal> found = Match(backend, method, path, scratch, *match);
    if (!found) match = std::unexpected(std::move(found.error()));
    return match;
  }
  // The same without a copy of what is large. After a failure `match` is of no use.
  std::expected<void, CallRefusal> Match(const Backend& backend, std::string_view method,
                                         std::string_view path, std::string& scratch,
                                         RouteMatch& match) const;

 private:
  std::expected<void, CallRefusal> CheckUpperMethod(const RouteMatch& match,
                                                    std::string_view method,
                                                    std::string_view path) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recourse
