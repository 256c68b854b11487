#include "filters/ledger/engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "filters/ledger/rules/begin.h"
#include "filters/ledger/rules/decide_approval.h"
#include "filters/ledger/rules/move_flow.h"
#include "filters/ledger/rules/record_outcome.h"

namespace recourse {

Engine::Engine(LedgerParts parts, const Clock& clock)
    : state_(std::move(parts), clock),
      lookup_(state_),
      rows_(state_, lookup_),
      retirement_(state_, lookup_, rows_),
      index_(state_) {}

Result<BeginPlan> Engine::Begin(NewOperation& call) {
  BeginRule rule(call);
  // It is large, and what every way out of here returns, so that it is not moved.
  Result<BeginPlan> planned = lookup_.Judge([&](Known& known) { return rule.Decide(known); });
  if (!planned) return planned;
  if (const auto done = rows_.CarryOut(planned->plan); !done) {
    const Error& error = done.error();
    const bool may_have_effect = planned->may_have_effect;
    planned = std::unexpected(
        may_have_effect ? Error(error.code(), error.detail(), Delivery::kUncertain) : error);
    return planned;
  }
  if (call.wait != nullptr && planned->waits_for != 0) call.wait->WaitFor(planned->waits_for);
  if (!planned->writes_event) return planned;
  Event& event = std::get<EventWrite>(planned->plan.writes.front()).event;
  // Its sender has it; the ledger gives it back. What it leaves is freed by the thread that made
  // it.
  if (planned->request == BeginPlan::Request::kGoesBack) {
    call.event.request = std::exchange(event.request, std::nullopt);
  } else if (planned->request == BeginPlan::Request::kWithSender) {
    event.request.reset();
  }
  planned->begun.event = std::move(event);
  return planned;
}

Result<Event> Engine::Record(Transition& transition) {
  auto plan = lookup_.Judge([&](Known& known) { return recourse::Decide(transition, known); });
  if (!plan) return std::unexpected(plan.error());
  if (auto done = rows_.CarryOut(*plan); !done) return std::unexpected(done.error());
  return std::move(std::get<EventWrite>(plan->writes.front()).event);
}

Result<void> Engine::RecordPolicy(const PolicyChange& change) { return rows_.AppendPolicy(change); }

Result<void> Engine::RecordOrder(const OperatorOrder& order) { return rows_.AppendOrder(order); }

void Engine::MarkAnswered(AttemptId answered) { rows_.MarkAnswered(answered); }

void Engine::MarkUnread(AttemptId answered) { rows_.MarkUnread(answered); }

bool Engine::is_batch_full() const {
  const RowBatch& batch = state_.log.batch();
  return !is_latched() && (batch.size() >= limits::kCommitBatchMax ||
                           batch.bytes.size() >= limits::kCommitBatchBytesMax);
}

Result<FlowState> Engine::MoveFlow(const FlowMove& move) {
  auto planned = lookup_.Judge([&](Known& known) { return recourse::Decide(move, known); });
  if (!planned) return std::unexpected(planned.error());
  if (auto done = rows_.CarryOut(planned->plan); !done) return std::unexpected(done.error());
  return std::move(planned->reply);
}

Result<ApprovalOutcome> Engine::Decide(const ApprovalOrder& order) {
  auto planned = lookup_.Judge([&](Known& known) { return recourse::Decide(order, known); });
  if (!planned) return std::unexpected(planned.error());
  if (auto done = rows_.CarryOut(planned->plan); !done) return std::unexpected(done.error());
  if (!planned->plan.writes.empty()) {
    planned->reply.event = std::move(std::get<EventWrite>(planned->plan.writes.front()).event);
  }
  return std::move(planned->reply);
}

Result<std::vector<PendingApproval>> Engine::Claims(std::uint64_t after, std::size_t limit) {
  std::vector<PendingApproval> claims;
  for (auto at = state_.claims.all().upper_bound(after);
       at != state_.claims.all().end() && claims.size() < limit; ++at) {
    if (!state_.log.IsCommitted(at->second.last_event)) continue;
    auto event = state_.log.Load(at->second.last_event);
    if (!event) return std::unexpected(event.error());
    const Millis left = event->approval ? state_.clock.TimeLeft(*event->approval) : Millis::max();
    claims.push_back({std::move(*event), left});
  }
  return claims;
}

Result<Engine::State> Engine::StateOf(std::uint64_t operation) {
  const auto found = state_.index.Find(operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::unexpected(Error(ErrorCode::kInternal, "no such operation"));
  return State{(*found)->entry.last_event, (*found)->entry.phase};
}

Result<std::vector<Event>> Engine::Open(std::uint64_t after, std::size_t limit) {
  std::vector<Event> events;
  for (auto at = state_.open.all().upper_bound(after);
       at != state_.open.all().end() && events.size() < limit; ++at) {
    // Only a failed commit leaves an operation that cannot be read; it is open all the same.
    if (!state_.log.IsCommitted(at->second.last_event)) continue;
    auto event = state_.log.Load(at->second.last_event);
    if (!event) return std::unexpected(event.error());
    events.push_back(std::move(*event));
  }
  return events;
}

Result<std::vector<bool>> Engine::AreNewest(const std::vector<OperationRow>& rows) {
  std::vector<bool> newest;
  newest.reserve(rows.size());
  for (const OperationRow& row : rows) {
    const auto located = state_.index.keys().Locate(row.key);
    if (!located) return std::unexpected(located.error());
    bool is_newest = !*located || (*located)->last_event == row.row ||
                     !state_.log.IsCommitted((*located)->last_event);
    if (!is_newest) {
      // The key may mean another operation by now.
      const auto entry = state_.index.keys().Find(row.key);
      if (!entry) return std::unexpected(entry.error());
      is_newest = !*entry || (*entry)->operation != row.operation;
    }
    newest.push_back(is_newest);
  }
  return newest;
}

LedgerStats Engine::Stats() {
  LedgerStats stats;
  stats.last_id = state_.log.head().seq;
  stats.first_id = state_.log.first_row();
  stats.rows = state_.log.head().seq - state_.log.first_row() + 1;
  stats.tombstones = state_.index.tombstones();
  stats.free_bytes = state_.space.free_bytes();
  stats.reserve_bytes = state_.Promised();
  stats.locked_carried = retirement_.locked_carried();
  stats.is_full = state_.is_full || state_.index.keys().is_full();
  stats.quota_refusals = lookup_.admission().quota_refusals();
  stats.oldest_row_ms = retirement_.OldestRowMs();
  stats.retention_lag_ms = retirement_.LagMs();
  stats.operations = state_.index.operations();
  stats.running = state_.open.running();
  stats.uncertain = state_.open.size() - state_.open.running();
  stats.commits = state_.log.commits();
  stats.epoch = state_.log.head().epoch;
  stats.oldest_pending_ms = state_.open.OldestMs(state_.log.commits());
  stats.latched = is_latched();
  stats.restored = is_restored();
  stats.approvals_pending = state_.claims.size();
  stats.flows_open = state_.flows.CountOf(FlowPhase::kOpen);
  stats.flows_breaking =
      state_.flows.CountOf(FlowPhase::kBreaking) + state_.flows.CountOf(FlowPhase::kUndoing);
  stats.flows_stopped = state_.flows.stopped();
  stats.flows_parked = state_.flows.CountOf(FlowPhase::kNeedsHuman) - state_.flows.stopped();
  stats.flows_parked_since_ms = state_.flows.ParkedSinceMs();
  stats.identity = state_.parts.log->identity();
  stats.head = state_.log.head().hash;
  return stats;
}

}  // namespace recourse
