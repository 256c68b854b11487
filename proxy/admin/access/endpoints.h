// What the admin port has, and who may use it: the one table.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>

#include "proxy/admin/access/operator.h"

namespace recourse {

struct Endpoint {
  enum class Need : std::uint8_t {
    kRead,
    kApprove,
    kRepair,
    kSettle,       // also whoever may repair
    kAnyOperator,  // whoever is known, also without a role
    kNobody,       // anybody, without a credential: pages that say nothing of what is remembered
  };
  std::string_view method;
  std::string_view path;  // "*" stands for one segment
  Need need = Need::kRepair;

  // Only GET changes nothing, and it never does.
  bool changes() const { return method != "GET"; }
};

// Every endpoint; what is not in it does not exist.
std::span<const Endpoint> Endpoints();

// The one for a request of `method` to `path`, which is without query. Else the methods that the
// path takes, separated by ", "; empty: there is no such path.
std::expected<const Endpoint*, std::string> FindEndpoint(std::string_view method,
                                                         std::string_view path);

// The role that it takes, as words: "read", "any operator".
std::string_view NameOf(Endpoint::Need need);
bool Allows(Endpoint::Need need, const Roles& roles);

}  // namespace recourse
