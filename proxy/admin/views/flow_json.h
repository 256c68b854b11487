// Flows as JSON for the admin API and the command line.
#pragma once

#include <string>

#include "proxy/admin/views/flow_view.h"

namespace recourse {

// Appends the flow as a JSON object: its name and state, and how many steps it has.
void AppendFlowLine(std::string& out, const FlowState& state);
// The same with its steps and the undo request of each that has one, without credentials.
std::string FlowJson(const FlowView& view);
// What undoing it would send and do, in order.
std::string PreviewJson(const FlowView& view);

}  // namespace recourse
