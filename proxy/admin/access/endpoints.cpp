#include "proxy/admin/access/endpoints.h"

#include "proxy/base/http/own_port.h"

namespace recourse {
namespace {

using Need = Endpoint::Need;

constexpr Endpoint kEndpoints[] = {
    {"GET", "/", Need::kNobody},
    {"GET", "/ui/*", Need::kNobody},
    {"GET", "/openapi.json", Need::kNobody},
    {"GET", kPortPath, Need::kNobody},
    {"GET", "/approvals", Need::kRead},
    {"GET", "/approvals/*", Need::kRead},
    {"GET", "/events", Need::kRead},
    {"GET", "/events/*", Need::kRead},
    {"GET", "/flows", Need::kRead},
    {"GET", "/flows/*", Need::kRead},
    {"GET", "/flows/*/preview", Need::kRead},
    {"GET", "/ledger", Need::kRead},
    {"GET", "/ledger/rows", Need::kRead},
    {"GET", "/log-level", Need::kRead},
    {"GET", "/operations", Need::kRead},
    {"GET", "/policy", Need::kRead},
    {"GET", "/policy/explain", Need::kRead},
    {"GET", "/policy/tools", Need::kRead},
    {"GET", "/report", Need::kRead},
    {"GET", "/status", Need::kRead},
    {"GET", "/stream", Need::kRead},
    {"GET", "/version", Need::kRead},
    {"POST", "/ledger/verify", Need::kRead},
    {"POST", "/approvals/*/approve", Need::kApprove},
    {"POST", "/approvals/*/reject", Need::kApprove},
    {"POST", "/policy/explain", Need::kRead},
    {"POST", "/drain", Need::kRepair},
    {"POST", "/flows/close", Need::kRepair},
    {"POST", "/flows/*/cancel", Need::kRepair},
    {"POST", "/flows/*/close", Need::kRepair},
    {"POST", "/flows/*/resolve", Need::kRepair},
    {"POST", "/flows/*/retry", Need::kRepair},
    {"POST", "/flows/*/undo", Need::kRepair},
    {"POST", "/ledger/accept", Need::kRepair},
    {"POST", "/ledger/backup", Need::kRepair},
    {"POST", "/operations/*/settle", Need::kSettle},
    {"POST", "/policy/reload", Need::kRepair},
    {"PUT", "/log-level", Need::kRepair},
    {"DELETE", "/session", Need::kAnyOperator},
    {"GET", "/session", Need::kAnyOperator},
    {"POST", "/session", Need::kAnyOperator},
};

std::string_view TakeSegment(std::string_view& path) {
  const auto end = path.find('/', 1);
  const std::string_view segment = path.substr(0, end);
  path = end == std::string_view::npos ? std::string_view() : path.substr(end);
  return segment;
}

bool Matches(std::string_view pattern, std::string_view path) {
  if (!path.starts_with('/')) return false;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view wanted = TakeSegment(pattern);
    const std::string_view given = TakeSegment(path);
    if (wanted == "/*" ? given.size() < 2 : wanted != given) return false;
  }
  return pattern.empty() && path.empty();
}

}  // namespace

std::span<const Endpoint> Endpoints() { return kEndpoints; }

std::expected<const Endpoint*, std::string> FindEndpoint(std::string_view method,
                                                         std::string_view path) {
  std::string methods;
  for (const Endpoint& endpoint : kEndpoints) {
    if (!Matches(endpoint.path, path)) continue;
    if (endpoint.method == method) return &endpoint;
    methods.append(methods.empty() ? "" : ", ").append(endpoint.method);
  }
  return std::unexpected(methods);
}

std::string_view NameOf(Need need) {
  switch (need) {
    case Need::kRead:
      return "read";
    case Need::kApprove:
      return "approve";
    case Need::kRepair:
      return "repair";
    case Need::kSettle:
      return "settle";
    case Need::kAnyOperator:
      return "any operator";
    case Need::kNobody:
      return "nobody";
  }
  return "nobody";
}

bool Allows(Need need, const Roles& roles) {
  switch (need) {
    case Need::kRead:
      return roles.Has(Role::kRead);
    case Need::kApprove:
      return roles.Has(Role::kApprove);
    case Need::kRepair:
      return roles.Has(Role::kRepair);
    case Need::kSettle:
      return roles.Has(Role::kSettle) || roles.Has(Role::kRepair);
    case Need::kAnyOperator:
    case Need::kNobody:
      return true;
  }
  return false;
}

}  // namespace recourse
