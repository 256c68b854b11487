#include "filters/ledger/engine/retirement.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/check.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

// How exactly ages are known: a mark per so much of the retention.
Millis SpacingOf(const LedgerRule& rule) {
  const Millis shorter = std::min(rule.retention, rule.tombstones) / limits::kAgeMarksPerRetention;
  return std::clamp(shorter, Millis(limits::kAgeSpacingMin), Millis(limits::kAgeSpacingMax));
}

}  // namespace

Millis Retirement::Every(const LedgerRule& rule) { return SpacingOf(rule); }

Result<Retirement::Done> Retirement::Retire(const LedgerRule& rule) {
  Done retired;
  if (state_.log.is_latched()) return retired;  // what could not be committed is in the batch yet
  RC_CHECK(state_.log.batch().empty());
  const std::uint64_t last = state_.log.head().seq;
  if (state_.index.keys().is_damaged() || last == 0) return retired;
  const MonoTime now = state_.clock.Now();
  const RowAges& ages = state_.clock.ages();
  const bool is_marked = state_.clock.ages().Mark(now, last, SpacingOf(rule));
  retention_ms_ = rule.retention.count();
  // A flow that is idle for longer than anything is kept holds nothing back.
  state_.flows.CloseIdle(now - std::min<Millis>(rule.retention, limits::kFlowIdle),
                         limits::kFlowsMax, limits::kRetireRows);
  Step step;
  step.through = std::min(ages.OldThrough(now, rule.retention), last);
  step.lived_ms = ages.LivedMs(now);
  step.tombstones_ms = rule.tombstones.count();
  step.base.first_seq = state_.log.first_row();
  std::vector<std::string> rows;
  if (!ReadOldRows(step.through, rows)) {
    return std::unexpected(Unreadable(state_.log.first_row()));
  }
  const Result<void> looked_at = RetireRows(rows, step);
  retired.rows = step.base.first_seq - state_.log.first_row();
  retired.more = retired.rows > 0 && step.base.first_seq <= step.through;
  Finish(now, is_marked, step);
  if (auto committed = rows_.Commit(); !committed) return std::unexpected(committed.error());
  if (!looked_at) return std::unexpected(looked_at.error());
  retired.is_late = retired.more && OldestRowMs() - retention_ms_ > retention_ms_ / 4;
  return retired;
}

// As many as can be read: what they became is committed even if the next one is damaged.
Result<void> Retirement::RetireRows(const std::vector<std::string>& rows, Step& step) {
  for (const std::string& bytes : rows) {
    const std::uint64_t expected = step.base.first_seq;
    const auto row = ParseRow(bytes);
    if (!row || row->head.seq != expected) return std::unexpected(Unreadable(expected));
    const auto done = RetireRow(*row, step);
    if (!done) return std::unexpected(done.error());
    if (!*done) break;
    step.base = {expected + 1, RowHash(bytes)};
  }
  return {};
}

void Retirement::Finish(MonoTime now, bool is_marked, Step& step) {
  const bool has_rows = step.base.first_seq > state_.log.first_row();
  for (const auto& [operation, key] : step.moved) step.row.moved.push_back({operation, key});
  RowBatch& batch = state_.log.batch();
  // One row is always left: it carries the row number, the epoch and the chain on.
  const bool is_last_one = step.base.first_seq > state_.log.head().seq && batch.size() == 0;
  if (!step.row.empty() || is_last_one) {
    step.row.operations = state_.index.operations();
    step.row.tombstones_total = state_.index.tombstones();
    rows_.AppendRetired(step.row);
  }
  if (has_rows) batch.base = step.base;
  if (is_marked || has_rows) batch.ages = state_.clock.ages().Encode(now);
}

// Copies: looking at one row means looking up others.
bool Retirement::ReadOldRows(std::uint64_t through, std::vector<std::string>& rows) {
  if (through < state_.log.first_row()) return true;
  // What is carried on needs room before the old rows leave.
  const std::uint64_t bytes_max =
      std::min<std::uint64_t>(limits::kRetireBytes, state_.space.free_bytes() / 8);
  std::size_t bytes_read = 0;
  return state_.log.reader().Scan(state_.log.first_row(), limits::kRetireRows,
                                  [&](std::uint64_t seq, std::string_view bytes) {
                                    if (seq > through || bytes_read > bytes_max) return false;
                                    bytes_read += bytes.size();
                                    rows.emplace_back(bytes);
                                    return true;
                                  });
}

Result<bool> Retirement::RetireRow(const RowView& row, Step& step) {
  // An event leaves two tombstones at most.
  if (step.row.tombstones.size() + 2 > limits::kRetireTombstones) return false;
  Result<void> done;
  switch (row.head.kind) {
    case RowKind::kEvent:
      done = RetireEvent(row, step);
      break;
    case RowKind::kAlias:
      done = RetireAlias(row, step);
      break;
    case RowKind::kRetired:
      return RetireTombstones(row, step);
    case RowKind::kPolicy:
      done = RetirePolicy(row);
      break;
    case RowKind::kFlow:
      done = RetireFlow(row);
      break;
    case RowKind::kAnswered:  // forgetting a mark errs towards replay
    case RowKind::kOrder:
    case RowKind::kEpoch:
    case RowKind::kVoid:
      break;
  }
  if (!done) return std::unexpected(done.error());
  return true;
}

Result<void> Retirement::RetireEvent(const RowView& row, Step& step) {
  OldEvent event;
  event.row = row.head.seq;
  if (!DecodeEventFront(row, event.front)) return std::unexpected(Unreadable(row.head.seq));
  if (state_.clock.IsOfThisProcess(row.head.seq)) {
    Event whole;
    if (!DecodeEvent(row, AnswerPart::kSkipBody, state_.log.opener(), whole)) {
      return std::unexpected(Unreadable(row.head.seq));
    }
    state_.callers.Free(whole.caller, kRowHeadBytes + row.payload.size());
  }
  auto judged = recourse::Retain(event);
  while (const auto* const need = std::get_if<EventNeed>(&judged)) {
    if (auto found = Find(*need, row, event); !found) return found;
    judged = recourse::Retain(event);
  }
  RetainPlan& plan = std::get<RetainPlan>(judged);
  if (plan.keeps_flow) KeepFlowOf(row, event.front.operation);
  if (plan.carries) {
    if (auto done = CopyForward(row, event.front); !done) return done;
  }
  if (plan.is_moved) step.moved[event.front.operation] = event.front.key;
  if (plan.ends) EndOperation(event.front, step);
  Leave(std::move(plan), row, step);
  state_.index.ForgetMarks(event.front, row.head.seq);
  return {};
}

Result<void> Retirement::Find(EventNeed need, const RowView& row, OldEvent& event) {
  const auto take = [](auto found, auto& fact) -> Result<void> {
    if (!found) return std::unexpected(found.error());
    fact = *found;
    return {};
  };
  const EventFront& front = event.front;
  switch (need) {
    case EventNeed::kOwn:
      return take(PlaceOf(front.key), event.own);
    case EventNeed::kBase:
      return take(PlaceOf(front.base_key), event.base);
    case EventNeed::kEnded:
      return take(StandsNoMore(front, event.row), event.is_ended);
    case EventNeed::kHeld: {
      const auto news = NewsOf(row);
      event.is_held = news && state_.flows.HoldsStep(news->caller, news->flow, front.operation);
      return {};
    }
    case EventNeed::kKept: {
      const auto entry = state_.index.keys().Find(front.key);
      if (!entry) return std::unexpected(entry.error());
      event.is_kept = *entry && !(*entry)->is_alias && !(*entry)->is_tombstone &&
                      (*entry)->operation == front.operation;
      return {};
    }
  }
  return {};
}

Result<PlaceOfKey> Retirement::PlaceOf(const Digest& key) {
  const auto place = state_.index.keys().Locate(key);
  if (!place) return std::unexpected(place.error());
  if (!*place) return PlaceOfKey();
  return PlaceOfKey({(*place)->last_event, (*place)->newest_generation});
}

Result<bool> Retirement::StandsNoMore(const EventFront& write, std::uint64_t row) {
  if (write.stands.kind == WriteKind::kNone || write.stands.is_named) return false;
  if (write.phase == Phase::kCompensated) return true;
  if (!IsExecuted(write.phase)) return false;
  if (write.stands.is_over) return true;
  return lookup_.Judge([&](Known& known) { return IsEndedSince(write, row, known); });
}

// The first row of a step of a flow leaves, so that from now on a row of its own tells of the flow.
void Retirement::KeepFlowOf(const RowView& row, std::uint64_t operation) {
  const auto news = NewsOf(row);
  const FlowState* const flow = news ? state_.flows.Find(news->caller, news->flow) : nullptr;
  if (flow == nullptr || flow->row != 0) return;
  const bool has_step = std::ranges::any_of(flow->steps, [&](const FlowStep& step) {
    return step.operation == operation || step.undo == operation;
  });
  if (has_step) (void)rows_.AppendFlow(FlowState(*flow));
}

// To the end of the log.
Result<void> Retirement::CopyForward(const RowView& row, const EventFront& front) {
  const auto entry = state_.index.keys().Find(front.key);
  if (!entry) return std::unexpected(entry.error());
  Event event;
  if (!*entry || !DecodeEvent(row, AnswerPart::kLoad, state_.log.opener(), event)) {
    return std::unexpected(Unreadable(row.head.seq));
  }
  if (!event.is_locked) {
    event.cause = Cause::kCarried;
    return rows_.AppendStanding(event, &**entry);
  }
  const std::uint64_t moved_to = state_.log.next_row();
  if (!rows_.AppendLocked(row, front, event.caller, **entry)) {
    return std::unexpected(Unreadable(row.head.seq));
  }
  ++locked_carried_;
  Log(LogLevel::kError, "an open operation that cannot be read is kept beyond the retention",
      {{"row", PrintRowId(row.head.seq)},
       {"moved_to", PrintRowId(moved_to)},
       {"operation", PrintRowId(front.operation)},
       {"reason", event.detail},
       {"do", "put the key's line back into the key file"}});
  return {};
}

void Retirement::Leave(RetainPlan plan, const RowView& row, Step& step) {
  for (const Digest& key : plan.forgotten) state_.index.keys().Forget(key);
  for (Tombstone& tombstone : plan.tombstones) {
    if (tombstone.phase == Phase::kNone) tombstone.phase = Phase::kTombstone;
    tombstone.last_wall_ms = state_.clock.DatedMs(row.head.seq, row.head.wall_ms);
    tombstone.since_ms = step.lived_ms;
    step.row.tombstones.push_back(tombstone);
    state_.index.AddTombstones(1);
  }
}

void Retirement::EndOperation(const EventFront& front, Step& step) {
  state_.index.keys().ForgetIntent(KeyOfIntent(front.intent, front.principal), front.operation);
  if (step.moved.erase(front.operation) == 0 && state_.index.moved().contains(front.operation)) {
    step.row.ended.push_back(front.operation);
  }
}

Result<void> Retirement::RetireAlias(const RowView& row, Step& step) {
  Alias alias;
  if (!DecodeAlias(row, alias)) return std::unexpected(Unreadable(row.head.seq));
  const auto own = PlaceOf(KeyOfGeneration(alias.key, alias.generation));
  if (!own) return std::unexpected(own.error());
  const auto base = PlaceOf(alias.key);
  if (!base) return std::unexpected(base.error());
  bool has_target = false;
  if (*own && (*own)->last_row == row.head.seq) {
    const auto target = state_.index.Find(alias.operation);
    if (!target) return std::unexpected(target.error());
    has_target = target->has_value();
  }
  RetainPlan plan = recourse::RetainAlias(alias, row.head.seq, *own, *base, has_target);
  if (plan.carries) rows_.AppendAlias(alias);
  Leave(std::move(plan), row, step);
  return {};
}

// The policy in force stays known.
Result<void> Retirement::RetirePolicy(const RowView& row) {
  if (row.head.seq != state_.policy_row) return {};
  PolicyChange change;
  if (!DecodePolicy(row, change)) return std::unexpected(Unreadable(row.head.seq));
  return rows_.AppendPolicy(change);
}

// The flow's last row moves on while the flow is not over. Of one that was undone it fences the
// name, until it is as old as everything that is forgotten.
Result<void> Retirement::RetireFlow(const RowView& row) {
  FlowState state;
  if (!DecodeFlow(row, state)) return std::unexpected(Unreadable(row.head.seq));
  if (state_.flows.HoldsRow(state)) {
    return rows_.AppendFlow(FlowState(*state_.flows.Find(state.number)));
  }
  if (state.phase == FlowPhase::kUndone) state_.flows.Unfence(state);
  return {};
}

// All of them, or none: then the next step has room for them.
Result<bool> Retirement::RetireTombstones(const RowView& row, Step& step) {
  RetiredRow retired;
  if (!DecodeRetired(row, retired)) return std::unexpected(Unreadable(row.head.seq));
  if (!step.row.tombstones.empty() &&
      step.row.tombstones.size() + retired.tombstones.size() > limits::kRetireTombstones) {
    return false;
  }
  for (Tombstone& tombstone : retired.tombstones) {
    const auto own = PlaceOf(tombstone.key);
    if (!own) return std::unexpected(own.error());
    if (*own) tombstone.newest_generation = (*own)->newest_generation;
    const auto later = LaterOf(tombstone.key, tombstone.newest_generation);
    if (!later) return std::unexpected(later.error());
    const TombstoneFate fate =
        RetainTombstone(tombstone, row.head.seq, *own, *later, step.lived_ms, step.tombstones_ms);
    if (fate != TombstoneFate::kMovesOn) state_.index.AddTombstones(-1);
    if (fate == TombstoneFate::kIsOver) state_.index.keys().Forget(tombstone.key);
    if (fate != TombstoneFate::kMovesOn) continue;
    // The row it moves to may be written after a jump of the wall clock, and its date goes by that
    // row.
    tombstone.last_wall_ms = state_.clock.DatedMs(row.head.seq, tombstone.last_wall_ms);
    step.row.tombstones.push_back(tombstone);
  }
  return true;
}

Result<Later> Retirement::LaterOf(const Digest& key, std::uint32_t newest_generation) {
  if (newest_generation == 0) return Later::kNone;
  const auto newest = PlaceOf(KeyOfGeneration(key, newest_generation));
  if (!newest) return std::unexpected(newest.error());
  return *newest ? Later::kKept : Later::kNone;
}

std::int64_t Retirement::OldestRowMs() const {
  const bool is_empty = state_.log.first_row() > state_.log.head().seq;
  return is_empty ? 0 : state_.clock.LivedMs() - state_.clock.ages().OldestMs();
}

std::int64_t Retirement::LagMs() const {
  return retention_ms_ > 0 ? std::max<std::int64_t>(0, OldestRowMs() - retention_ms_) : 0;
}

}  // namespace recourse
