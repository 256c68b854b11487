// What the admin port has, who may use it, and how it is described: the one table. Dispatch,
// authorisation and /openapi.json come from it.
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
  struct Param {
    enum class In : std::uint8_t { kQuery, kPath, kHeader };
    std::string_view name;
    std::string_view schema = R"({"type": "string"})";  // JSON, or the name of one in openapi.json
    std::string_view text = "";
    In in = In::kQuery;
  };
  // A kind of answer that is no JSON; `item`: the schema of each line or message.
  struct Content {
    std::string_view type, item = "";
  };
  struct Docs {
    std::span<const Param> params = {};
    std::string_view body = "";  // its schema; empty: it takes none
    bool may_lack_body = false;
    std::string_view answer = "";  // in words
    std::string_view schema = "";  // of an answer in JSON
    std::span<const Content> contents = {};
    std::string_view header = "";    // that the answer has
    std::string_view problems = "";  // statuses besides those that every endpoint of its need has
    std::string_view refusal = "";   // schema of a 422 that is no plain problem
  };

  std::string_view method;
  std::string_view path;  // "{id}" stands for one segment
  Need need = Need::kRepair;
  std::string_view id, summary;  // in openapi.json
  Docs docs;

  // "/flows/*", as logs and errors tell it.
  std::string pattern() const;
  // Why a query may not have this; empty: it may.
  std::string UnknownParameter(std::string_view name) const;

  // Only GET changes nothing, and it never does.
  bool changes() const { return method != "GET"; }
};

// Every endpoint; what is not in it does not exist.
std::span<const Endpoint> AdminEndpoints();

// The one for a request of `method` to `path`, which is without query. Else the methods that the
// path takes, separated by ", "; empty: there is no such path.
std::expected<const Endpoint*, std::string> FindEndpoint(std::string_view method,
                                                         std::string_view path);

// The role that it takes, as words: "read", "any operator".
std::string_view NameOf(Endpoint::Need need);
bool Allows(Endpoint::Need need, const Roles& roles);

}  // namespace recourse
