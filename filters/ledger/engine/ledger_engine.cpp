#include "filters/ledger/engine/ledger_engine.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/rules/begin.h"
#include "filters/ledger/rules/record_outcome.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/check.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

void LeaveRequestOut(Event& event) {
  event.request.reset();
  event.request_left_out = true;
}

}  // namespace

LedgerEngine::LedgerEngine(LedgerParts parts, const Clock& clock)
    : parts_(std::move(parts)),
      clock_(clock),
      reader_(parts_.log->NewReader()),
      opener_(parts_.keys),
      is_restored_(parts_.accept_restored != nullptr),
      jumps_(clock.Now(), ToUnixMillis(clock.WallNow())),
      index_(*parts_.log, parts_.cold.get(), parts_.hot_entries_max),
      ages_(parts_.log->LoadAges(), parts_.log->last_seq(), clock.Now()) {
  const LogBase base = parts_.log->base();
  first_seq_ = base.first_seq;
  index_.set_first_seq(first_seq_);
  head_ = {first_seq_ - 1, 0, base.prev_hash};
  chain_ = head_.hash;
  batch_.first_seq = first_seq_;
  LookAtSpace();
  if (parts_.keys != nullptr) sealer_.emplace(parts_.keys);
}

Result<LedgerEngine::BeginStep> LedgerEngine::Begin(NewOperation& call) {
  BeginRule rule(call);
  auto planned = Judge([&](Known& known) { return rule.Decide(known); });
  if (!planned) return std::unexpected(planned.error());
  if (const auto done = CarryOut(planned->plan); !done) {
    const Error& error = done.error();
    if (!planned->may_have_effect) return std::unexpected(error);
    return std::unexpected(Error(error.code(), error.detail(), Delivery::kUncertain));
  }
  if (call.wait != nullptr && planned->waits_for != 0) call.wait->WaitFor(planned->waits_for);
  Result<BeginStep> step(std::in_place, std::move(planned->begun), planned->load_after_commit,
                         planned->writes_event);
  if (!planned->writes_event) return step;
  Event& event = std::get<EventWrite>(planned->plan.writes.front()).event;
  // Its sender has it; the ledger gives it back. What it leaves is freed by the thread that made
  // it.
  if (planned->request == BeginPlan::Request::kGoesBack) {
    call.event.request = std::exchange(event.request, std::nullopt);
  } else if (planned->request == BeginPlan::Request::kWithSender) {
    event.request.reset();
  }
  step->begun.event = std::move(event);
  return step;
}

Result<Event> LedgerEngine::Record(Transition& transition) {
  auto plan = Judge([&](Known& known) { return recourse::Decide(transition, known); });
  if (!plan) return std::unexpected(plan.error());
  if (auto done = CarryOut(*plan); !done) return std::unexpected(done.error());
  return std::move(std::get<EventWrite>(plan->writes.front()).event);
}

Result<void> LedgerEngine::RecordPolicy(const PolicyChange& change) {
  if (is_latched_) return std::unexpected(LatchedError());
  const RowHead head = NextHead(RowKind::kPolicy);
  policy_seq_ = head.seq;
  AppendPolicyRow(batch_.bytes, head, change);
  CloseRow();
  return {};
}

Result<void> LedgerEngine::RecordOrder(const OperatorOrder& order) {
  if (is_latched_) return std::unexpected(LatchedError());
  const RowHead head = NextHead(RowKind::kOrder);
  if (order.what == kAcceptOrder) accepted_seq_ = head.seq;
  AppendOrderRow(batch_.bytes, head, order);
  CloseRow();
  return {};
}

RowHead LedgerEngine::NextHead(RowKind kind) {
  const std::uint64_t seq = batch_.first_seq + batch_.size();
  const std::int64_t wall_ms = WallMs();
  jumps_.Note(seq, clock_.Now(), wall_ms);
  return {kind, seq, head_.epoch, wall_ms, chain_};
}

void LedgerEngine::CloseRow() {
  batch_.ends.push_back(batch_.bytes.size());
  chain_ = RowHash(batch_.row(batch_.size() - 1));
}

Result<void> LedgerEngine::AppendEvent(Event& event, const KeyEntry* previous) {
  NoteDispatch(batch_.first_seq + batch_.size(), event);
  if (IsExecuted(event.phase) && event.stands.kind != WriteKind::kNone) {
    auto stands = Judge([&](Known& known) {
      return JudgeStanding({.operation = event.operation,
                            .phase = event.phase,
                            .cause = event.cause,
                            .resource = event.resource,
                            .stands = event.stands},
                           known.next_row, previous, known);
    });
    if (!stands) return std::unexpected(stands.error());
    event.stands = std::move(*stands);
  }
  return WriteEvent(event, previous);
}

Result<void> LedgerEngine::WriteEvent(Event& event, const KeyEntry* previous) {
  const RowHead head = NextHead(RowKind::kEvent);
  event.id = head.seq;
  event.epoch = head.epoch;
  event.wall_ms = head.wall_ms;
  if (event.operation == 0) event.operation = event.id;
  if (event.detail.size() > limits::kDetailBytesMax) event.detail.resize(limits::kDetailBytesMax);
  if (event.request && !CanBeKept(*event.request)) LeaveRequestOut(event);
  const std::size_t start = batch_.bytes.size();
  AppendEventRow(batch_.bytes, event, chain_, sealer_ ? &*sealer_ : nullptr);
  if (batch_.bytes.size() - start > limits::kEventBytesMax) {
    batch_.bytes.resize(start);
    return std::unexpected(
        Error(ErrorCode::kInternal, "the event is too large to be kept", Delivery::kNotSent));
  }
  CloseRow();
  const std::size_t bytes = batch_.row(batch_.size() - 1).size();
  callers_.Store(event.caller, bytes);
  if (event.phase == Phase::kDispatching) {
    batch_.has_dispatching = true;
    // The marks are written behind this row, where they would speak of the new attempt.
    if (previous != nullptr && previous->is_answered) std::erase(marks_, event.operation);
  } else {
    batch_.has_outcome = true;
  }
  Apply(event, previous);
  OpenClaim claim{.last_event = event.id, .bytes = bytes, .flow = {}, .caller = event.caller};
  if (IsClaim(event.phase)) claim.flow = FlowKeyOf(event.caller, event.flow);
  TrackClaim(event.operation, event.phase, std::move(claim));
  if (const auto news = NewsOf(event)) flows_.Apply(*news, clock_.Now());
  return {};
}

Result<void> LedgerEngine::Commit() {
  if (is_latched_) return std::unexpected(LatchedError());
  if (!marks_.empty()) AppendMarks();
  if (batch_.empty()) return {};
  auto done = parts_.log->Append(batch_);
  if (!done && done.error().is_full && DropAnswersOfBatch()) done = parts_.log->Append(batch_);
  if (!done) {
    is_latched_ = true;
    Log(LogLevel::kError, "the ledger cannot be written; writes are refused until a restart",
        {{"reason", done.error().reason}});
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "the commit failed"));
  }
  ++commits_;
  head_.seq += batch_.size();
  head_.hash = chain_;
  if (batch_.base) {
    first_seq_ = batch_.base->first_seq;
    index_.set_first_seq(first_seq_);
    ages_.Forget(first_seq_ - 1);
  }
  const std::size_t bytes = batch_.bytes.size();
  batch_.Clear();
  batch_.first_seq = head_.seq + 1;
  TakeSpace(bytes);
  return {};
}

}  // namespace recourse
