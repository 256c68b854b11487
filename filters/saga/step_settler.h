// Finds out what became of a broken flow's steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_tools.h"
#include "filters/saga/step_resender.h"
#include "proxy/base/clock.h"
#include "proxy/base/task.h"

namespace recourse {

class StepSettler {
 public:
  StepSettler(const FlowTools& tools, StepResender::Parts resending)
      : tools_(tools), resender_(std::move(resending)) {}

  // Of a flow that is breaking. nullopt: it is parked, or has to wait.
  Task<std::optional<FlowState>> Settle(FlowState state);

 private:
  // What a look at the open steps of a breaking flow showed.
  struct OpenSteps {
    bool is_running = false;
    MonoTime until;            // something may find out until then
    MonoTime next;             // when to look again
    std::string unknown;       // which step, and why nobody knows
    std::uint64_t unread = 0;  // a step whose events cannot be read; 0: none
  };
  Task<void> SettleStep(std::uint64_t number, std::uint64_t operation, OpenSteps& open);
  Task<void> ResendStep(std::uint64_t number, Event unknown, OpenSteps& open);

  const FlowTools tools_;
  StepResender resender_;
};

}  // namespace recourse
