#include "filters/ledger/postgres/upkeep/old_rows.h"

#include <utility>
#include <variant>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/key_entry.h"
#include "filters/ledger/rules/standing_rules.h"

namespace recourse {
namespace {

constexpr int kStandingRoundsMax = 64;

std::unexpected<std::string> BadRow(std::uint64_t row) {
  return std::unexpected("row " + PrintRowId(row) +
                         " is damaged; recourse ledger verify says what else is");
}

}  // namespace

std::expected<void, std::string> OldRowsJudge::Fetch(const Wishes& wishes) {
  if (wishes.empty()) return {};
  auto fetched = recourse::Fetch(of_.connection, wishes, of_.group);
  if (!fetched) return std::unexpected(fetched.error().text);
  known_.versions.operations.merge(fetched->versions.operations);
  known_.versions.flows.merge(fetched->versions.flows);
  known_.rows.merge(fetched->rows);
  known_.keys_of.merge(fetched->keys_of);
  return {};
}

// What the rows are about, and then what that belongs to.
std::expected<void, std::string> OldRowsJudge::Read(const std::vector<OldRow>& rows) {
  Wishes first;
  for (const OldRow& row : rows) {
    const auto view = ParseRow(row.bytes);
    if (!view) return BadRow(row.id);
    EventFront front;
    FlowState flow;
    Alias alias;
    if (DecodeEventFront(*view, front)) first.keys.insert(AsUuid(front.key));
    if (DecodeFlow(*view, flow)) first.flows.insert(AsUuid(FlowKeyOf(flow.caller, flow.id)));
    if (!DecodeAlias(*view, alias)) continue;
    first.keys.insert(AsUuid(KeyOfGeneration(alias.key, alias.generation)));
    first.keys.insert(AsUuid(alias.key));
    first.operations.insert(alias.operation);
  }
  if (auto fetched = Fetch(first); !fetched) return fetched;
  Wishes more;
  for (const auto& [key, stored] : known_.versions.operations) {
    if (stored.flow) more.flows.insert(*stored.flow);
    const auto row = known_.rows.find(stored.last_event);
    const auto view = row != known_.rows.end() ? ParseRow(row->second.bytes)
                                               : std::unexpected(std::string_view());
    EventFront front;
    if (view && DecodeEventFront(*view, front) && front.generation > 0) {
      more.keys.insert(AsUuid(front.base_key));
    }
  }
  return Fetch(more);
}

const StoredOperation* OldRowsJudge::Operation(const Digest& key) const {
  const auto found = known_.versions.operations.find(AsUuid(key));
  return found == known_.versions.operations.end() ? nullptr : &found->second;
}

std::expected<OldRows, std::string> OldRowsJudge::Judge(const std::vector<OldRow>& rows) {
  if (auto read = Read(rows); !read) return std::unexpected(read.error());
  for (const OldRow& row : rows) {
    const auto may_leave = Take(row);
    if (!may_leave) return std::unexpected(may_leave.error());
    if (!*may_leave) break;
    ++old_.count;
    old_.chain = RowHash(row.bytes);
  }
  return std::move(old_);
}

std::expected<bool, std::string> OldRowsJudge::Take(const OldRow& row) {
  const auto view = ParseRow(row.bytes);
  if (!view) return BadRow(row.id);
  switch (view->head.kind) {
    case RowKind::kEvent:
      return TakeEvent(row, *view);
    case RowKind::kAlias:
      return TakeAlias(row, *view);
    case RowKind::kFlow:
      return TakeFlow(row, *view);
    default:
      return true;
  }
}

std::expected<bool, std::string> OldRowsJudge::TakeEvent(const OldRow& row, const RowView& view) {
  EventFront front;
  if (!DecodeEventFront(view, front)) return BadRow(row.id);
  const StoredOperation* const stored = Operation(front.key);
  const bool is_kept = stored != nullptr && stored->operation == front.operation &&
                       !stored->is_tombstone && !stored->is_alias && !stored->is_placeholder;
  if (is_kept && !old_.operations.contains(AsUuid(front.key))) {
    const auto ended = End(front.key, *stored);
    if (!ended || !*ended) return ended;
  }
  if (!IsExecuted(front.phase)) return true;
  for (const Mark& mark : LeftBy(front.stands, front.resource)) {
    old_.intents[AsUuid(AsDigest(mark))] = row.id;
  }
  return true;
}

// All of it, or nothing: its first row names it, its last one says what it is.
std::expected<bool, std::string> OldRowsJudge::End(const Digest& key,
                                                   const StoredOperation& stored) {
  if (stored.wall_ms > of_.old_ms) return false;
  const auto last = known_.rows.find(stored.last_event);
  const auto view = last != known_.rows.end() ? ParseRow(last->second.bytes)
                                              : std::unexpected(std::string_view());
  OldEvent event{.row = stored.last_event, .front = {}};
  if (!view || !DecodeEventFront(*view, event.front)) return BadRow(stored.last_event);
  event.own = KeyPlace{stored.last_event, stored.newest_generation};
  if (event.front.generation > 0) {
    const StoredOperation* const base = Operation(event.front.base_key);
    event.base =
        base != nullptr ? PlaceOfKey({base->last_event, base->newest_generation}) : PlaceOfKey();
  }
  const auto flow =
      stored.flow ? known_.versions.flows.find(*stored.flow) : known_.versions.flows.end();
  event.is_held = flow != known_.versions.flows.end() && !IsFinal(flow->second.phase);
  auto judged = Retain(event);
  if (std::holds_alternative<EventNeed>(judged)) {
    const auto ended = StandsNoMore(event.front, event.row);
    if (!ended) return ended;
    event.is_ended = *ended;
    judged = Retain(event);
  }
  const auto* const plan = std::get_if<RetainPlan>(&judged);
  if (plan == nullptr || plan->carries) return false;
  OldRows::Ended& leaves = old_.operations[AsUuid(key)];
  leaves.version = stored.version;
  leaves.is_forgotten = true;
  for (const Tombstone& tombstone : plan->tombstones) {
    if (tombstone.key != event.front.key) continue;  // the table remembers it without a row
    leaves.is_forgotten = false;
    leaves.phase = tombstone.phase == Phase::kNone ? Phase::kTombstone : tombstone.phase;
  }
  if (event.front.intent == Digest{}) return true;
  const Digest intent = KeyOfIntent(event.front.intent, event.front.principal);
  old_.intents[AsUuid(intent)] = stored.operation;
  old_.links.push_back(AsUuid(KeyOfBefore(intent, stored.operation)));
  return true;
}

bool OldRowsJudge::TakeAlias(const OldRow& row, const RowView& view) {
  Alias alias;
  if (!DecodeAlias(view, alias)) return false;
  const Digest key = KeyOfGeneration(alias.key, alias.generation);
  const StoredOperation* const own = Operation(key);
  if (own == nullptr || !own->is_alias || own->last_event != row.id) return true;
  const auto key_of = known_.keys_of.find(alias.operation);
  const auto target = key_of != known_.keys_of.end() && key_of->second
                          ? known_.versions.operations.find(*key_of->second)
                          : known_.versions.operations.end();
  const bool has_target = target != known_.versions.operations.end() &&
                          target->second.operation == alias.operation &&
                          !target->second.is_tombstone && !target->second.is_alias &&
                          !old_.operations.contains(target->first);
  if (has_target) return false;
  const StoredOperation* const base = Operation(alias.key);
  const PlaceOfKey base_place =
      base != nullptr ? PlaceOfKey({base->last_event, base->newest_generation}) : PlaceOfKey();
  const RetainPlan plan = RetainAlias(
      alias, row.id, KeyPlace{own->last_event, own->newest_generation}, base_place, false);
  old_.operations[AsUuid(key)] = {
      .version = own->version, .is_forgotten = !plan.forgotten.empty(), .phase = Phase::kTombstone};
  return true;
}

// The last one of a flow that is over fences its name no longer.
bool OldRowsJudge::TakeFlow(const OldRow& row, const RowView& view) {
  FlowState state;
  if (!DecodeFlow(view, state)) return false;
  const Uuid key = AsUuid(FlowKeyOf(state.caller, state.id));
  const auto flow = known_.versions.flows.find(key);
  if (flow == known_.versions.flows.end()) return true;
  if (!IsFinal(flow->second.phase)) return false;
  if (flow->second.row == row.id) old_.flows[key] = flow->second.version;
  return true;
}

std::expected<bool, std::string> OldRowsJudge::StandsNoMore(const EventFront& write,
                                                            std::uint64_t row) {
  if (write.stands.kind == WriteKind::kNone || write.stands.is_named) return false;
  if (write.phase == Phase::kCompensated) return true;
  if (!IsExecuted(write.phase)) return false;
  if (write.stands.is_over) return true;
  Known known;
  VerbFacts facts(local_, false);
  for (int round = 0; round < kStandingRoundsMax; ++round) {
    known.BeginRound();
    const auto judged = IsEndedSince(write, row, known);
    if (judged) return *judged;
    if (std::holds_alternative<Error>(judged.error())) return false;
    facts.Answer(known, known.needs());
    if (facts.rows().wishes().empty()) continue;
    const auto fetched = recourse::Fetch(of_.connection, facts.rows().wishes(), of_.group);
    if (!fetched) return std::unexpected(fetched.error().text);
    facts.rows().Take(*fetched);
  }
  return false;
}

}  // namespace recourse
