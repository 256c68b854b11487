// Which flow a write belongs to. Pure.
#pragma once

#include <string>

#include "filters/call/call_values.h"
#include "filters/call_context.h"

namespace recourse {

struct FlowName {
  std::string text;
  bool is_shared = true;  // false: nothing in the call names it, so it is a flow of one step
};

// What the call itself says, first one first: the flow of its parent, its trace, what the policy
// takes where there is no trace; else a name that no other write has.
FlowName FlowOfCall(const RequestContext& context, const CallBody& body);

// The flow that the agent names by Recourse-Flow, else the one above. Fails with kMalformedRequest
// when that field is no name.
Result<FlowName> FlowOf(const RequestContext& context, const CallBody& body);

// The name of the flow that `without_trace: pod` gives a pod: that of the ledger, unless it is told
// which pod it is in.
std::string PodFlowName(const std::string& install_secret, const std::string& pod);

}  // namespace recourse
