// What becomes of a request to a GraphQL server, by policy. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/graphql/request.h"
#include "policy/model/call_refusal.h"
#include "policy/model/policy.h"

namespace recourse {

struct GraphqlDecision {
  const Tool* tool = nullptr;  // of the policy; nullptr: none names it
  Effect effect = Effect::kWrite;
  UnlistedRule unlisted = UnlistedRule::kGuard;  // of a mutation without a tool
  std::string field;                             // of the mutation; empty: a query
  // Why it must not be passed on: denied by `unlisted`; a mutation of several fields, of which one
  // writes; one that leaves out what the policy reads of its answer.
  std::optional<CallRefusal> refusal;
};

// `calls` are of one request. Queries and subscriptions are reads, also where nothing lists them.
GraphqlDecision DecideGraphql(const Policy& policy, const Backend& backend,
                              const std::vector<GraphqlCall>& calls);

// What the policy reads of the data of an answer to the tool's calls, as pointers: the reference,
// the undo, how it went.
std::vector<std::string> PlacesOfData(const Tool& tool);

// How a request to a backend with `protocol: graphql` reads. `query` is that of its target, with
// its
// '?' or empty.
std::expected<std::vector<GraphqlCall>, CallRefusal> ReadGraphql(const Backend& backend,
                                                                 std::string_view method,
                                                                 const Headers& headers,
                                                                 std::string_view query,
                                                                 std::string_view body);

}  // namespace recourse
