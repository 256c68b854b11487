// Events as JSON for the admin API and the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// "2026-11-20T10:00:00.123Z"
std::string Rfc3339Millis(std::int64_t unix_millis);
// Appends one event as a JSON object. Never answers' bodies or rendered requests: they may carry
// secrets.
// `pods`: whose row it is; null: that of the process itself.
void AppendEvent(std::string& out, const Event& event, PodNames* pods = nullptr);
// What a human decided.
void AppendDecision(std::string& out, const ApprovalDecision& decision);
// A move of a flow, an object of `kind` "flow".
void AppendFlowMoved(std::string& out, const FlowMoved& moved, PodNames* pods = nullptr);
// An event with what was kept: `answer`, `request`, `settle_request`, `task_request`,
// `undo_request`, each with its fields and its `body`, or `body_base64` where that is no UTF-8.
void AppendEventWithAnswer(std::string& out, const Event& event, PodNames* pods = nullptr);
// Shows all of a page, in the order of the rows.
void EachRow(const EventPage& page, auto show_flow, auto show_event) {
  auto event = page.events.begin();
  for (const FlowMoved& moved : page.flows) {
    const auto at = page.events.begin() + static_cast<std::ptrdiff_t>(moved.events_before);
    for (; event != at; ++event) show_event(*event);
    show_flow(moved);
  }
  for (; event != page.events.end(); ++event) show_event(*event);
}
// A page may get short by it, and empty, and has the next one all the same.
void LeaveRowsOf(const std::function<bool(std::uint64_t row)>& is_of, EventPage& page);
// The id after which the next page begins, or "null".
std::string NextOf(const EventPage& page);
std::string ToJson(const VerifyReport& report);
std::string ToJson(const LedgerStats& stats);

// What openapi.json says of these objects, of an event with what was kept without a name.
std::vector<JsonShape> EventShapes();
JsonShape EventWithMessages();

}  // namespace recourse
