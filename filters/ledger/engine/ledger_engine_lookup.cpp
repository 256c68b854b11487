// What the rules ask LedgerEngine for, and how it carries out what they plan.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"

namespace recourse {

Known LedgerEngine::Beginning() const {
  Known known;
  known.next_row = batch_.first_seq + batch_.size();
  known.wall_ms = WallMs();
  known.is_latched = is_latched_;
  return known;
}

Result<std::optional<FoundOperation>> LedgerEngine::LookUp(const OperationOf& asked) {
  auto found = FindByOperation(asked.operation);
  if (found && *found) {
    const auto open = open_.find(asked.operation);
    (*found)->may_hold_more = open == open_.end() || open->second.may_have_more;
  }
  return found;
}

Result<std::optional<ApprovalState>> LedgerEngine::LookUp(const ApprovalOf& asked) {
  const auto found = FindByOperation(asked.operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  auto event = LoadClaim((*found)->entry);
  if (!event) return std::unexpected(event.error());
  const Millis left = event->approval ? TimeLeft(*event->approval) : Millis::max();
  return ApprovalState{**found, std::move(*event), left};
}

Result<std::vector<ApprovalState>> LedgerEngine::LookUp(const ApprovalsIn& asked) {
  std::vector<ApprovalState> states;
  for (const auto& [operation, claim] : claims_) {
    if (claim.flow != asked.flow) continue;
    auto state = LookUp(ApprovalOf{operation});
    // What cannot be read is refused when it is to be sent.
    if (state && *state) states.push_back(std::move(**state));
  }
  return states;
}

Result<std::optional<FlowState>> LedgerEngine::LookUp(const FlowNumbered& asked) {
  const FlowState* const flow = flows_.Find(asked.number);
  return flow == nullptr ? std::nullopt : std::optional(*flow);
}

Result<FlowNamed::Fact> LedgerEngine::LookUp(const FlowNamed& asked) {
  const FlowState* const flow = flows_.Find(asked.key);
  return FlowNamed::Fact{flow == nullptr ? std::nullopt : std::optional(*flow),
                         flows_.FencedBy(asked.key)};
}

Result<Event> LedgerEngine::LookUp(const EventAt& asked) {
  return ReadEvent(asked.row, asked.part);
}

Result<EventFront> LedgerEngine::LookUp(const FrontOf& asked) { return ReadEventFront(asked.row); }

Result<std::optional<std::uint64_t>> LedgerEngine::LookUp(const IntentOf& asked) {
  return index_.FindIntent(asked.intent);
}

Result<std::optional<std::uint64_t>> LedgerEngine::LookUp(const MarkSince& asked) {
  return index_.FindSince(asked.mark, asked.since);
}

Result<bool> LedgerEngine::LookUp(const RoomFor& asked) { return HasSpace(asked.bytes); }

Result<void> LedgerEngine::CarryOut(Plan& plan) {
  for (RowWrite& write : plan.writes) {
    auto done = std::visit([this](auto& row) { return Append(row); }, write);
    if (!done) return done;
  }
  ended_claims_.insert(ended_claims_.end(), plan.ended.begin(), plan.ended.end());
  return {};
}

Result<void> LedgerEngine::Append(EventWrite& write) {
  return WriteEvent(write.event, write.follows ? &*write.follows : nullptr);
}

Result<void> LedgerEngine::Append(FlowWrite& write) {
  const RowHead head = NextHead(RowKind::kFlow);
  write.state.row = head.seq;
  AppendFlowRow(batch_.bytes, head, write.state);
  CloseRow();
  flows_.Apply(std::move(write.state), clock_.Now());
  return {};
}

}  // namespace recourse
