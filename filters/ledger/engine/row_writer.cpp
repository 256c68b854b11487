#include "filters/ledger/engine/row_writer.h"

#include <variant>

#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/move_flow.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

bool IsLastOf(const AttemptId& attempt, const FoundOperation& found) {
  return attempt.attempt == found.entry.attempt && IsMeant(attempt.key, found.key);
}

}  // namespace

Result<void> RowWriter::CarryOut(Plan& plan) {
  for (RowWrite& write : plan.writes) {
    auto done = std::visit([this](auto& row) { return Append(row); }, write);
    if (!done) return done;
  }
  ended_claims_.insert(ended_claims_.end(), plan.ended.begin(), plan.ended.end());
  return {};
}

Result<void> RowWriter::Append(EventWrite& write) {
  auto done = AppendEvent(write.event, write.follows ? &*write.follows : nullptr);
  if (done && write.counts != EventWrite::Counts::kNothing) {
    lookup_.admission().Count(write.event, write.counts == EventWrite::Counts::kOperation);
  }
  return done;
}

Result<void> RowWriter::Append(const AliasWrite& write) {
  AppendAlias(write.alias);
  return {};
}

Result<void> RowWriter::Append(FlowWrite& write) {
  const RowHead head = state_.log.NextHead(RowKind::kFlow);
  write.state.row = head.seq;
  AppendFlowRow(state_.log.batch().bytes, head, write.state);
  state_.log.CloseRow();
  state_.flows.Apply(std::move(write.state), state_.clock.Now());
  return {};
}

Result<void> RowWriter::AppendStanding(Event& event, const KeyEntry* previous) {
  NoteDispatch(state_.log.next_row(), event);
  if (IsExecuted(event.phase) && event.stands.kind != WriteKind::kNone) {
    auto stands = lookup_.Judge([&](Known& known) {
      return JudgeStanding({.operation = event.operation,
                            .phase = event.phase,
                            .cause = event.cause,
                            .principal = event.principal,
                            .resource = event.resource,
                            .stands = event.stands},
                           known.next_row, previous, known);
    });
    if (!stands) return std::unexpected(stands.error());
    event.stands = std::move(*stands);
  }
  return AppendEvent(event, previous);
}

Result<void> RowWriter::AppendEvent(Event& event, const KeyEntry* previous) {
  if (auto done = state_.log.AppendEvent(event); !done) return done;
  const std::size_t bytes = state_.log.last_row_bytes();
  state_.callers.Store(event.caller, bytes);
  // The marks are written behind this row, where they would speak of the new attempt.
  if (event.phase == Phase::kDispatching && previous != nullptr && previous->is_answered) {
    std::erase(marks_, event.operation);
  }
  Apply(event, previous);
  state_.claims.Track(event, bytes);
  if (const auto news = NewsOf(event)) state_.flows.Apply(*news, state_.clock.Now());
  return {};
}

// Its marks are lent to the front: to copy them costs more than all else here.
void RowWriter::Apply(Event& event, const KeyEntry* previous) {
  EventFront front{.operation = event.operation,
                   .generation = event.generation,
                   .attempt = event.attempt,
                   .phase = event.phase,
                   .cause = event.cause,
                   .key = event.key,
                   .base_key = event.base_key,
                   .intent = event.intent,
                   .args_hash = event.args_hash,
                   .verdict = event.verdict,
                   .related = event.related,
                   .is_extended = event.approval || event.state || event.found,
                   .principal = event.principal,
                   .resource = event.resource,
                   .stands = std::move(event.stands)};
  state_.index.Apply(front, event.id, event.wall_ms, previous);
  event.stands = std::move(front.stands);
  if (event.phase == Phase::kDenied) {
    state_.index.NoteNo(event.caller, event.tool, event.args_hash, event.operation);
  }
}

Result<void> RowWriter::AppendFlow(const FlowState& state) {
  auto plan = lookup_.Judge([&](Known& known) -> Judged<Plan> {
    Plan flow;
    if (auto done = PlanFlow(state, known, flow); !done) return std::unexpected(done.error());
    return flow;
  });
  if (!plan) return std::unexpected(plan.error());
  return CarryOut(*plan);
}

Result<void> RowWriter::AppendPolicy(const PolicyChange& change) {
  if (state_.log.is_latched()) return std::unexpected(LatchedError());
  const RowHead head = state_.log.NextHead(RowKind::kPolicy);
  state_.policy_row = head.seq;
  AppendPolicyRow(state_.log.batch().bytes, head, change);
  state_.log.CloseRow();
  return {};
}

Result<void> RowWriter::AppendOrder(const OperatorOrder& order) {
  if (state_.log.is_latched()) return std::unexpected(LatchedError());
  const RowHead head = state_.log.NextHead(RowKind::kOrder);
  if (order.what == kAcceptOrder) state_.accepted_row = head.seq;
  AppendOrderRow(state_.log.batch().bytes, head, order);
  state_.log.CloseRow();
  return {};
}

void RowWriter::AppendRetired(const RetiredRow& retired) {
  const RowHead head = state_.log.NextHead(RowKind::kRetired);
  AppendRetiredRow(state_.log.batch().bytes, head, retired);
  state_.log.CloseRow();
  state_.index.Apply(retired, head.seq);
}

bool RowWriter::AppendLocked(const RowView& row, const EventFront& front, std::string_view caller,
                             const KeyEntry& previous) {
  const RowHead head = state_.log.NextHead(RowKind::kEvent);
  if (!AppendLockedRow(state_.log.batch().bytes, head, row)) return false;
  state_.log.CloseRow();
  state_.callers.Store(caller, state_.log.last_row_bytes());
  state_.index.Apply(front, head.seq, head.wall_ms, &previous);
  return true;
}

void RowWriter::AppendEpoch() {
  state_.log.BeginEpoch();
  AppendEpochRow(state_.log.batch().bytes, state_.log.NextHead(RowKind::kEpoch));
  state_.log.CloseRow();
}

void RowWriter::AppendAlias(const Alias& alias) {
  const RowHead head = state_.log.NextHead(RowKind::kAlias);
  AppendAliasRow(state_.log.batch().bytes, head, alias);
  state_.log.CloseRow();
  (void)state_.index.keys().PutAlias(alias, head.seq, head.wall_ms);
}

// Forgetting a mark errs towards replay.
void RowWriter::MarkAnswered(AttemptId answered) {
  if (state_.log.is_latched()) return;
  const auto found = state_.index.Find(answered.operation);
  if (!found || !*found || (*found)->entry.is_answered) return;
  if (!IsLastOf(answered, **found)) return;
  if (marks_.size() >= limits::kLedgerQueueMax || state_.is_full) return;
  state_.index.SetAnswered(**found, true);
  marks_.push_back(answered.operation);
}

void RowWriter::MarkUnread(AttemptId answered) {
  if (state_.log.is_latched()) return;
  const auto found = state_.index.Find(answered.operation);
  if (!found || !*found || !(*found)->entry.is_answered) return;
  if (!IsLastOf(answered, **found)) return;
  state_.index.SetAnswered(**found, false);
  if (std::erase(marks_, answered.operation) > 0) return;  // the log does not say it yet
  if (marks_.size() < limits::kLedgerQueueMax && !state_.is_full) {
    marks_.push_back(answered.operation | kUnreadMark);
  }
}

void RowWriter::AppendMarks() {
  AppendAnsweredRow(state_.log.batch().bytes, state_.log.NextHead(RowKind::kAnswered), marks_);
  state_.log.CloseRow();
  marks_.clear();
}

Result<void> RowWriter::Commit() {
  if (state_.log.is_latched()) return std::unexpected(LatchedError());
  if (!marks_.empty()) AppendMarks();
  const RowBatch& batch = state_.log.batch();
  if (batch.empty()) return {};
  const std::uint64_t first = state_.log.first_row();
  if (auto done = state_.log.Commit(); !done) return done;
  if (state_.log.first_row() != first) {
    state_.index.keys().set_first_seq(state_.log.first_row());
    state_.clock.ages().Forget(state_.log.first_row() - 1);
  }
  state_.space.Take(state_.log.committed_bytes(), state_.Promised());
  return {};
}

}  // namespace recourse
