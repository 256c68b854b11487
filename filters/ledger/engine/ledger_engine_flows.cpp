// The moves of flows in LedgerEngine.
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"
#include "filters/ledger/rules/move_flow.h"

namespace recourse {
Result<void> LedgerEngine::WriteFlow(const FlowState& state) {
  auto plan = Judge([&](Known& known) -> Judged<Plan> {
    Plan flow;
    if (auto done = PlanFlow(state, known, flow); !done) return std::unexpected(done.error());
    return flow;
  });
  if (!plan) return std::unexpected(plan.error());
  return CarryOut(*plan);
}

Result<FlowState> LedgerEngine::MoveFlow(const FlowMove& move) {
  auto planned = Judge([&](Known& known) { return recourse::Decide(move, known); });
  if (!planned) return std::unexpected(planned.error());
  if (auto done = CarryOut(planned->plan); !done) return std::unexpected(done.error());
  return std::move(planned->reply);
}

// The flow's last row moves on while the flow is not over. Of one that was undone it fences the
// name, until it is as old as everything that is forgotten.
Result<void> LedgerEngine::RetireFlow(const RowView& row) {
  FlowState state;
  if (!DecodeFlow(row, state)) return std::unexpected(Unreadable(row.head.seq));
  if (flows_.HoldsRow(state)) {
    return WriteFlow(FlowState(*flows_.Find(state.number)));
  } else if (state.phase == FlowPhase::kUndone) {
    flows_.Unfence(state);
  }
  return {};
}

}  // namespace recourse
