// What the router has found for a request.
#pragma once

#include <string>
#include <string_view>

#include "policy/model/route_table.h"

namespace recourse {

class EndpointLane;

// What is a view is one of its head, or of `scratch`.
struct Route {
  EndpointPlace place;
  RouteMatch match;
  std::string scratch;
  std::string_view path, query;   // as they came; a query begins with "?"
  int forwards_left = -1;         // Max-Forwards for the next hop; -1: none
  bool is_guarded = false;        // a write that the ledger keeps
  bool is_observed = false;       // the policy says observe
  bool sends_once = false;        // a fresh connection, and no second attempt
  EndpointLane* judge = nullptr;  // of what is observed, by its body; nullptr: the head says all
};

}  // namespace recourse
