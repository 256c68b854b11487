// Flows as JSON for the admin API and the command line.
#pragma once

#include <string>
#include <vector>

#include "proxy/admin/views/flow_view.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// Appends the flow as a JSON object: its name and state, and how many steps it has.
// `pods`: who moved it last; null: that is the process itself.
// The newest row that is its own.
std::uint64_t LastRowOf(const FlowState& state);
void AppendFlowLine(std::string& out, const FlowState& state, PodNames* pods = nullptr);
// The same with its steps and the undo request of each that has one, without credentials.
std::string FlowJson(const FlowView& view, PodNames& pods);
// What undoing it would send and do, in order.
std::string PreviewJson(const FlowView& view);
std::vector<JsonShape> FlowShapes();

}  // namespace recourse
