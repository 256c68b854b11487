#include "tests/differential/world.h"

#include <fmt/format.h>

#include "filters/ledger/rows/row_codec.h"

namespace recourse::differential {

std::string Tell(const Error& error) {
  return fmt::format("error {} {} {}", static_cast<int>(error.code()), error.detail(),
                     static_cast<int>(error.delivery()));
}

// All that its row would hold, and what no row holds.
std::string Tell(const Event& event) {
  std::string text = fmt::format("event {} locked {} {} ", event.id, event.is_locked, event.detail);
  AppendEventRow(text, event, Digest{}, nullptr);
  return text;
}

std::string Tell(const FlowState& state) {
  std::string text = fmt::format("flow at {} ", state.row);
  AppendFlow(text, state);
  for (const FlowStep& step : state.steps) text += fmt::format(" {}", step.undo_base);
  return text;
}

std::string Tell(const Begun& begun) {
  return fmt::format("begun {} flow {} answered {} replays {} again in {} over {} related {} ",
                     static_cast<int>(begun.kind), begun.flow, begun.is_answered, begun.replays,
                     begun.again_in.count(), begun.is_key_over, begun.related_attempt) +
         Tell(begun.event);
}

std::string Tell(const ApprovalOutcome& outcome) {
  return fmt::format("outcome {} {} moved {} ", static_cast<int>(outcome.kind), outcome.text,
                     outcome.moved) +
         Tell(outcome.event);
}

std::string Tell(const PendingApproval& claim) {
  return fmt::format("waits {} ", claim.left.count()) + Tell(claim.event);
}

std::string Tell(const LedgerStats& stats) {
  return fmt::format(
      "rows {} {} commits {} operations {} uncertain {} running {} tombstones {} carried {} full "
      "{} "
      "quotas {} {} {} {} pending {} latched {} restored {} flows {} {} {} {} approvals {} free {} "
      "reserve {} oldest {} lag {}",
      stats.first_id, stats.last_id, stats.commits, stats.operations, stats.uncertain,
      stats.running, stats.tombstones, stats.locked_carried, stats.is_full, stats.quota_refusals[0],
      stats.quota_refusals[1], stats.quota_refusals[2], stats.quota_refusals[3],
      stats.oldest_pending_ms, stats.latched, stats.restored, stats.flows_open,
      stats.flows_breaking, stats.flows_parked, stats.flows_stopped, stats.approvals_pending,
      stats.free_bytes, stats.reserve_bytes, stats.oldest_row_ms, stats.retention_lag_ms);
}

}  // namespace recourse::differential
