// What the worker reads of flows and their steps, and how it moves them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_parts.h"
#include "filters/saga/flow_table.h"
#include "proxy/base/task.h"

namespace recourse {

class FlowRecords {
 public:
  FlowRecords(const FlowParts& parts, FlowTable& table) : parts_(parts), table_(table) {}

  // nullopt: the flow is over, or cannot be read.
  Task<std::optional<FlowState>> Get(std::uint64_t number);
  // nullopt: somebody else moved the flow, or the ledger refuses; it is looked at again.
  Task<std::optional<FlowState>> Move(FlowMove move);
  Task<std::optional<FlowState>> Park(const FlowState& state, std::string reason);

  // A step's last event. One that runs is not waited for.
  Task<std::optional<Event>> Latest(std::uint64_t operation);
  // The same for a step that is worked on; remembers since when it cannot be read.
  Task<std::optional<Event>> Look(std::uint64_t number, std::uint64_t operation);
  bool IsLostToReading(std::uint64_t number);
  static std::string UnreadReason(std::uint64_t operation);

 private:
  // Says that the flow came to a point that people want to hear of.
  void Tell(const FlowState& state);

  const FlowParts& parts_;
  FlowTable& table_;
};

}  // namespace recourse
