// Which flows a request to the admin API is about. Pure.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "filters/ledger/model/flow.h"

namespace recourse {

struct FlowSelection {
  std::optional<FlowPhase> phase{};
  std::optional<bool> stopped{};  // IsStopped
  std::string name, reason, pod;  // the policy's flow; a part of the reason; empty: any
  std::uint64_t limit = 100, after = 0;
  bool all = false;  // also those that are over
};

// Reads a query whose parameters are those of its endpoint. Its error is a line for people.
std::expected<FlowSelection, std::string> ReadFlowSelection(std::string_view query);

bool IsSelected(const FlowSelection& selection, const FlowState& state);

}  // namespace recourse
