// Which flows a request to the admin API is about. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/model/flow.h"

namespace recourse {

struct FlowSelection {
  std::optional<FlowPhase> phase{};
  std::optional<bool> stopped{};  // IsStopped
  std::string name, reason;       // the policy's flow; a part of the reason; empty: any
  std::uint64_t limit = 100, after = 0;
  bool all = false;  // also those that are over
};

// Reads a query that may have the parameters `accepted`. Its error is a line for people.
std::expected<FlowSelection, std::string> ReadFlowSelection(
    std::string_view query, const std::vector<std::string_view>& accepted);

bool IsSelected(const FlowSelection& selection, const FlowState& state);

}  // namespace recourse
