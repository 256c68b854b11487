#include "proxy/admin/api/flow_query.h"

#include <fmt/format.h>

#include "proxy/admin/api/query_params.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Takes one parameter; what is accepted, when the value is not.
std::optional<std::string_view> Take(FlowSelection& selection, const std::string& name,
                                     const std::string& value) {
  const bool is_true = value == "true";
  if (name == "phase") {
    selection.phase = FlowPhaseFromName(value);
    if (!selection.phase || selection.phase == FlowPhase::kNone) {
      return "OPEN, COMMITTED, BREAKING, UNDOING, UNDONE or NEEDS_HUMAN";
    }
  } else if (name == "limit") {
    std::uint64_t& limit = selection.limit;
    if (!ParseNumber(value, limit) || limit == 0 || limit > limits::kAdminPageMax) {
      return "1 to 1000";
    }
  } else if (name == "after") {
    if (!ParsePlace(value, selection.after)) return kIdForm;
  } else if (name == "all") {
    if (!is_true) return "true";
    selection.all = true;
  } else if (name == "stopped") {
    if (!is_true && value != "false") return "true or false";
    selection.stopped = is_true;
  } else {
    (name == "name" ? selection.name : name == "pod" ? selection.pod : selection.reason) = value;
  }
  return std::nullopt;
}

}  // namespace

std::expected<FlowSelection, std::string> ReadFlowSelection(std::string_view query) {
  FlowSelection selection;
  for (const auto& [name, value] : ParsePairs(query)) {
    if (const auto wanted = Take(selection, name, value)) {
      return std::unexpected(
          fmt::format("'{}' is no value for {}; accepted: {}", value, name, *wanted));
    }
  }
  return selection;
}

bool IsSelected(const FlowSelection& selection, const FlowState& state) {
  return state.number > selection.after && (!selection.phase || state.phase == *selection.phase) &&
         (!selection.stopped || IsStopped(state) == *selection.stopped) &&
         (selection.name.empty() || state.name == selection.name) &&
         state.reason.contains(selection.reason);
}

}  // namespace recourse
