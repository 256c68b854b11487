// What the rules ask LedgerEngine for, and how it carries out what they plan.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"

namespace recourse {

Known LedgerEngine::Beginning() const {
  Known known;
  known.first_row = first_seq_;
  known.durable_row = head_.seq;
  known.next_row = batch_.first_seq + batch_.size();
  known.wall_ms = WallMs();
  known.lived_ms = ages_.LivedMs(clock_.Now());
  known.is_latched = is_latched_;
  known.is_restored = is_restored();
  known.has_open_writes = !open_marks_.empty();
  return known;
}

Result<std::optional<FoundOperation>> LedgerEngine::LookUp(const OperationOf& asked) {
  auto found = FindByOperation(asked.operation);
  if (found && *found) {
    const auto open = open_.find(asked.operation);
    (*found)->may_hold_more = open == open_.end() || open->second.may_have_more;
    Date((*found)->entry);
  }
  return found;
}

Result<std::optional<FoundOperation>> LedgerEngine::LookUp(const KeyAt& asked) {
  const auto entry = index_.Find(asked.key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  FoundOperation found{asked.key, **entry};
  Date(found.entry);
  return found;
}

void LedgerEngine::Date(KeyEntry& entry) const {
  entry.last_wall_ms = DatedMs(entry.last_event, entry.last_wall_ms, WallMs());
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

Result<std::optional<std::uint32_t>> LedgerEngine::LookUp(const GenerationOf& asked) {
  const auto base = index_.Locate(asked.key);
  if (!base) return std::unexpected(base.error());
  return *base ? std::optional((*base)->newest_generation) : std::nullopt;
}

Result<std::optional<Event>> LedgerEngine::LookUp(const AnswerAt& asked) {
  if (!IsCommitted(asked.row)) return std::nullopt;
  auto event = Load(asked.row);
  if (!event) return std::unexpected(event.error());
  return std::move(*event);
}

Result<bool> LedgerEngine::LookUp(const OthersWait& asked) {
  return asked.wait->OthersWaitFor(asked.operation);
}

Result<std::vector<OpenWritesAt::Open>> LedgerEngine::LookUp(const OpenWritesAt& asked) {
  std::vector<OpenWritesAt::Open> writes;
  const auto [first, last] = open_marks_.equal_range(asked.mark);
  for (auto at = first; at != last; ++at) {
    const auto open = open_.find(at->second);
    if (open == open_.end()) continue;
    const OpenOperation& state = open->second;
    writes.push_back({at->second, state.last_event, state.told, state.phase});
  }
  return writes;
}

Result<std::int64_t> LedgerEngine::LookUp(const AgeOf& asked) {
  return AgeMs(asked.row, asked.written_ms, WallMs());
}

// The key's life began, at the latest, with the operation's first row. Whatever makes its age
// doubtful ends it.
Result<bool> LedgerEngine::LookUp(const KeyIsOver& asked) {
  const std::uint64_t operation = asked.operation;
  const bool is_of_backup = is_restored() && operation < process_first_seq_;
  if (is_of_backup || operation <= accepted_seq_ || !ReadRow(operation, row_)) return true;
  const auto row = ParseRow(row_);
  if (!row) return true;
  const MonoTime now = clock_.Now();
  const std::int64_t wall_ms = WallMs();
  const std::int64_t by_wall = wall_ms - row->head.wall_ms;
  const std::int64_t lived = jumps_.AgeMs(operation, row->head.wall_ms, now, wall_ms);
  const bool went_back = by_wall < 0 || lived - by_wall >= ClockJumps::kNoticedMs ||
                         (went_back_before_start_ && operation < process_first_seq_);
  return went_back || std::max(by_wall, lived) > asked.lives.count() ||
         ages_.OldThrough(now, asked.lives) >= operation;
}

Result<FenceAt::Fact> LedgerEngine::LookUp(const FenceAt& asked) {
  flows_.CloseIdle(clock_.Now() - limits::kFlowIdle, limits::kFlowsMax, limits::kFlowsClosedAtOnce);
  const Digest key = FlowKeyOf(asked.caller, asked.flow);
  const FlowState* const flow = flows_.Find(key);
  const bool is_too_long =
      flow != nullptr && flow->has_deadline && flow->steps.size() >= limits::kFlowStepsMax;
  return FenceAt::Fact{flows_.FencedBy(key), flow != nullptr, is_too_long,
                       flows_.is_full(limits::kFlowsMax)};
}

Result<std::optional<Millis>> LedgerEngine::LookUp(const TryOf& asked) {
  return refusals_.Take(asked.key, asked.principal, clock_.Now());
}

Result<int> LedgerEngine::LookUp(const ReplaysOf& asked) { return replays_.Count(asked.operation); }

Result<void> LedgerEngine::CarryOut(Plan& plan) {
  for (RowWrite& write : plan.writes) {
    auto done = std::visit([this](auto& row) { return Append(row); }, write);
    if (!done) return done;
  }
  ended_claims_.insert(ended_claims_.end(), plan.ended.begin(), plan.ended.end());
  return {};
}

Result<void> LedgerEngine::Append(EventWrite& write) {
  auto done = WriteEvent(write.event, write.follows ? &*write.follows : nullptr);
  if (done && write.counts != EventWrite::Counts::kNothing) {
    CountAttempt(write.event, write.counts == EventWrite::Counts::kOperation);
  }
  return done;
}

Result<void> LedgerEngine::Append(const AliasWrite& write) {
  AppendAlias(write.alias);
  return {};
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
