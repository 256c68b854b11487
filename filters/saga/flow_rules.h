// What the policy says about flows, as pure functions over one call and its outcome.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/call_context.h"
#include "filters/ledger/ledger.h"
#include "policy/model/policy.h"

namespace recourse {

// A request that is a message to us and is never forwarded: "Recourse-Flow: cancel", or "close",
// perhaps followed by a space and the flow's name.
struct FlowOrder {
  enum class Kind : std::uint8_t { kClose, kCancel };
  Kind kind = Kind::kClose;
  std::string flow;  // empty: the flow of the call
};
std::optional<FlowOrder> ReadFlowOrder(const Headers& headers);
// Whether a field Recourse-Flow of this value is one. Does not allocate.
bool IsFlowOrder(std::string_view value);

// Whether a flow that is at `phase` has broken and not come to an end.
bool IsWorkedOn(FlowPhase phase);

// When an open flow is over by the clock; nullopt: by none. `elapsed` is how long it has been open.
std::optional<Millis> FlowTimeLeft(const Policy& policy, const FlowState& state, Millis elapsed);

// The tools whose success ends a flow, one way or the other.
std::vector<std::string> DecidingTools(const Policy& policy, const Flow& flow);

// How long a flow whose deadline has passed stays open for the outcome of a step that may end it:
// a deciding one, or where none has to be the last, any that was sent before the deadline. Else its
// agent would read a success of what is being undone, or that what stays was canceled. `step` is
// its last event. A call that runs has the bound of its backend; zero: it completes nothing, or
// nobody will find out.
Millis AwaitedAtDeadline(const Policy& policy, const FlowState& state, const Event& step);

// What becomes of a flow whose deadline has passed: everything a success and `ends_with`, if there
// is one, among it: committed. Else as `on_deadline` says.
FlowMove MoveAtDeadline(const Policy& policy, const FlowState& state, bool has_ended);

}  // namespace recourse
