#include "filters/ledger/engine/ledger_lookup.h"

#include "proxy/base/limits.h"

namespace recourse {

void LedgerLookup::Begin(Known& known) {
  known.finder = this;
  known.first_row = state_.log.first_row();
  known.durable_row = state_.log.head().seq;
  known.next_row = state_.log.next_row();
  known.wall_ms = state_.clock.WallMs();
  known.lived_ms = state_.clock.LivedMs();
  known.is_latched = state_.log.is_latched();
  known.is_restored = state_.restored.waits();
  known.has_open_writes = state_.open.has_marks();
}

void LedgerLookup::Find(const Subject& subject, Known& known) {
  std::visit([&](const auto& asked) { known.Put(asked, LookUp(asked)); }, subject);
}

Result<std::optional<FoundOperation>> LedgerLookup::LookUp(const OperationOf& asked) {
  auto found = state_.index.Find(asked.operation);
  if (found && *found) {
    const OpenOperation* const open = state_.open.Find(asked.operation);
    (*found)->may_hold_more = open == nullptr || open->may_have_more;
    Date((*found)->entry);
  }
  return found;
}

Result<std::optional<FoundOperation>> LedgerLookup::LookUp(const KeyAt& asked) {
  const auto entry = state_.index.keys().Find(asked.key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry) return std::nullopt;
  FoundOperation found{asked.key, **entry};
  Date(found.entry);
  return found;
}

void LedgerLookup::Date(KeyEntry& entry) const {
  entry.last_wall_ms = state_.clock.DatedMs(entry.last_event, entry.last_wall_ms);
}

Result<std::optional<ApprovalState>> LedgerLookup::LookUp(const ApprovalOf& asked) {
  const auto found = state_.index.Find(asked.operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  auto event = state_.log.ReadWhole((*found)->entry.last_event);
  if (!event) return std::unexpected(event.error());
  const Millis left = event->approval ? state_.clock.TimeLeft(*event->approval) : Millis::max();
  return ApprovalState{**found, std::move(*event), left};
}

Result<std::vector<ApprovalState>> LedgerLookup::LookUp(const ApprovalsIn& asked) {
  std::vector<ApprovalState> states;
  for (const auto& [operation, claim] : state_.claims.all()) {
    if (claim.flow != asked.flow) continue;
    auto state = LookUp(ApprovalOf{operation});
    // What cannot be read is refused when it is to be sent.
    if (state && *state) states.push_back(std::move(**state));
  }
  return states;
}

Result<std::optional<FlowState>> LedgerLookup::LookUp(const FlowNumbered& asked) {
  const FlowState* const flow = state_.flows.Find(asked.number);
  return flow == nullptr ? std::nullopt : std::optional(*flow);
}

Result<FlowNamed::Fact> LedgerLookup::LookUp(const FlowNamed& asked) {
  const FlowState* const flow = state_.flows.Find(asked.key);
  return FlowNamed::Fact{flow == nullptr ? std::nullopt : std::optional(*flow),
                         state_.flows.FencedBy(asked.key)};
}

Result<Event> LedgerLookup::LookUp(const EventAt& asked) {
  return state_.log.ReadEvent(asked.row, asked.part);
}

Result<EventFront> LedgerLookup::LookUp(const FrontOf& asked) {
  return state_.log.ReadFront(asked.row);
}

Result<std::optional<std::uint64_t>> LedgerLookup::LookUp(const IntentOf& asked) {
  return state_.index.keys().FindIntent(asked.intent);
}

Result<std::optional<std::uint64_t>> LedgerLookup::LookUp(const MarkSince& asked) {
  return state_.index.keys().FindSince(asked.mark, asked.since);
}

Result<bool> LedgerLookup::LookUp(const RoomFor& asked) { return state_.HasSpace(asked.bytes); }

Result<std::optional<std::uint32_t>> LedgerLookup::LookUp(const GenerationOf& asked) {
  const auto base = state_.index.keys().Locate(asked.key);
  if (!base) return std::unexpected(base.error());
  return *base ? std::optional((*base)->newest_generation) : std::nullopt;
}

Result<AnswerAt::Fact> LedgerLookup::LookUp(const AnswerAt& asked) {
  if (!state_.log.IsCommitted(asked.row)) return nullptr;
  auto event = state_.log.Load(asked.row);
  if (!event) return std::unexpected(event.error());
  return std::make_unique<Event>(std::move(*event));
}

Result<bool> LedgerLookup::LookUp(const OthersWait& asked) {
  return asked.wait->OthersWaitFor(asked.operation);
}

Result<std::vector<OpenWritesAt::Open>> LedgerLookup::LookUp(const OpenWritesAt& asked) {
  return state_.open.At(asked.mark, asked.since);
}

Result<std::int64_t> LedgerLookup::LookUp(const AgeOf& asked) {
  return state_.clock.AgeMs(asked.row, asked.written_ms);
}

// The key's life began, at the latest, with the operation's first row.
Result<bool> LedgerLookup::LookUp(const KeyIsOver& asked) {
  const std::uint64_t operation = asked.operation;
  const bool is_of_backup = state_.restored.waits() && !state_.clock.IsOfThisProcess(operation);
  if (is_of_backup || operation <= state_.accepted_row || !state_.log.Read(operation, row_)) {
    return true;
  }
  const auto row = ParseRow(row_);
  return !row || state_.clock.MayBeOlder(operation, row->head.wall_ms, asked.lives);
}

Result<FenceAt::Fact> LedgerLookup::LookUp(const FenceAt& asked) {
  state_.flows.CloseIdle(state_.clock.Now() - limits::kFlowIdle, limits::kFlowsMax,
                         limits::kFlowsClosedAtOnce);
  const FlowState* const flow = state_.flows.Find(asked.flow);
  const bool is_too_long =
      flow != nullptr && flow->has_deadline && flow->steps.size() >= limits::kFlowStepsMax;
  return FenceAt::Fact{state_.flows.FencedBy(asked.flow), flow != nullptr, is_too_long,
                       state_.flows.is_full(limits::kFlowsMax)};
}

Result<std::optional<Millis>> LedgerLookup::LookUp(const TryOf& asked) {
  return refusals_.Take(asked.key, asked.principal, state_.clock.Now());
}

Result<int> LedgerLookup::LookUp(const ReplaysOf& asked) { return replays_.Count(asked.operation); }

Result<std::optional<Error>> LedgerLookup::LookUp(const AdmissionOf& asked) {
  return admission_.Refusal(asked);
}

}  // namespace recourse
