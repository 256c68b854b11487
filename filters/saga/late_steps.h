// Looks once more at steps whose absence was proved (the anomaly of the hanging forward step): a
// request that lay somewhere may still have arrived.
#pragma once

#include <cstdint>
#include <optional>

#include "filters/ledger/ledger.h"
#include "filters/saga/flow_tools.h"
#include "proxy/base/clock.h"
#include "proxy/base/task.h"

namespace recourse {

class LateSteps {
 public:
  explicit LateSteps(const FlowTools& tools) : tools_(tools) {}

  // Once nothing is left to be undone: a step may have taken effect after its absence was proved.
  // nullopt: the flow is over, parked, or has to wait.
  Task<std::optional<FlowState>> LookBack(FlowState state);

 private:
  bool NoteLook(std::uint64_t number, std::uint64_t operation, SecondLook seen);
  Task<std::optional<FlowState>> TakeLate(FlowState state, Event step, SecondLook seen);
  // How long after its proof a step is looked at again; nullopt: nothing says how.
  std::optional<Millis> LooksAgainAfter(const Event& step);

  const FlowTools tools_;
};

}  // namespace recourse
