// Undoes the steps of a broken flow, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_tools.h"
#include "filters/saga/late_steps.h"
#include "filters/saga/undo_sender.h"
#include "policy/model/policy.h"
#include "proxy/base/task.h"

namespace recourse {

class StepUndoer {
 public:
  StepUndoer(const FlowTools& tools, UndoSender::Parts sending)
      : tools_(tools), late_(tools), sender_(std::move(sending)) {}

  // Of a flow whose steps are settled. nullopt: it is over, parked, or has to wait.
  Task<std::optional<FlowState>> UndoNext(FlowState state);

 private:
  Task<std::optional<FlowState>> PassOver(FlowState state, const Event& step,
                                          const std::string& story);
  // The step of the flow that made what `removal` has removed, and that is undone by that; 0: none.
  Task<std::uint64_t> MakerOf(const FlowState& state, const Event& removal);
  Task<UndoOutcome> SendUndo(const FlowState& state, const FlowStep& step, const Event& event,
                             std::shared_ptr<const Policy> policy);
  // What the undos of its other steps have left, by whatever process they were sent.
  Task<void> Recall(const FlowState& state);

  const FlowTools tools_;
  LateSteps late_;
  UndoSender sender_;
};

}  // namespace recourse
