#include "filters/ledger/postgres/import/imported_tables.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr int kImportRoundsMax = 64;

std::unexpected<std::string> BadImport(std::uint64_t row) {
  return std::unexpected("row " + PrintRowId(row) +
                         " cannot be read; restore the ledger from a backup");
}

}  // namespace

// Of a flow that is over for want of calls no row tells.
ImportedTables::ImportedTables(EventLog::Reader& rows, const Clock& clock, std::uint64_t first_row)
    : reader_(rows),
      first_row_(first_row),
      now_(clock.Now()),
      now_ms_(ToUnixMillis(clock.WallNow())),
      opener_(nullptr),
      open_flows_([this](const FlowState& over) {
        const Uuid key = AsUuid(FlowKeyOf(over.caller, over.id));
        const auto flow = flows_.find(key);
        if (flow == flows_.end() || flow->second.stored.phase != FlowPhase::kOpen) return;
        work_.erase({WorkKind::kFlow, flow->second.stored.number});
        flows_.erase(flow);
      }) {}

MonoTime ImportedTables::AtOf(std::int64_t wall_ms) const {
  const Millis age(std::max<std::int64_t>(0, now_ms_ - wall_ms));
  return now_ - std::min(age, 2 * Millis(limits::kFlowIdle));
}

void ImportedTables::CloseIdle(std::int64_t wall_ms) {
  open_flows_.CloseIdle(AtOf(wall_ms) - limits::kFlowIdle, limits::kFlowsMax,
                        limits::kFlowsClosedAtOnce);
}

std::expected<LogColumns, std::string> ImportedTables::Take(const RowView& row) {
  ++rows_taken_;
  switch (row.head.kind) {
    case RowKind::kEvent:
      return TakeEvent(row);
    case RowKind::kFlow:
      return TakeFlow(row);
    case RowKind::kAlias:
      return TakeAlias(row);
    case RowKind::kAnswered:
      if (!TakeAnswered(row)) return BadImport(row.head.seq);
      break;
    case RowKind::kRetired:
      if (!TakeRetired(row)) return BadImport(row.head.seq);
      break;
    case RowKind::kEpoch:
    case RowKind::kPolicy:
    case RowKind::kOrder:
    case RowKind::kVoid:
      break;
  }
  return LogColumns{.id = row.head.seq};
}

void ImportedTables::Finish() {
  open_flows_.CloseIdle(now_ - limits::kFlowIdle, limits::kFlowsMax, flows_.size());
}

ImportedTables::Taken ImportedTables::TakeEvent(const RowView& row) {
  EventWrite write;
  if (!DecodeEvent(row, AnswerPart::kSkipBody, opener_, write.event))
    return BadImport(row.head.seq);
  const Event& event = write.event;
  if (const auto news = NewsOf(row)) {
    CloseIdle(news->wall_ms);
    open_flows_.Apply(*news, AtOf(news->wall_ms));
  }
  const Uuid key = AsUuid(event.key);
  keys_of_[event.operation] = key;
  if (event.operation < first_row_) moved_[event.operation] = key;
  return Write(std::move(write), row);
}

ImportedTables::Taken ImportedTables::TakeFlow(const RowView& row) {
  FlowWrite write;
  if (!DecodeFlow(row, write.state)) return BadImport(row.head.seq);
  write.state.row = row.head.seq;
  FlowState state = write.state;
  auto columns = Write(std::move(write), row);
  open_flows_.Apply(std::move(state), AtOf(row.head.wall_ms));
  return columns;
}

ImportedTables::Taken ImportedTables::TakeAlias(const RowView& row) {
  AliasWrite write;
  if (!DecodeAlias(row, write.alias)) return BadImport(row.head.seq);
  return Write(std::move(write), row);
}

bool ImportedTables::TakeAnswered(const RowView& row) {
  std::vector<std::uint64_t> marks;
  if (!DecodeAnswered(row, marks)) return false;
  for (const std::uint64_t mark : marks) {
    const auto key = keys_of_.find(mark & ~kUnreadMark);
    if (key == keys_of_.end()) continue;
    const auto found = operations_.find(key->second);
    if (found == operations_.end() || found->second.operation != key->first) continue;
    found->second.is_answered = (mark & kUnreadMark) == 0;
  }
  return true;
}

bool ImportedTables::TakeRetired(const RowView& row) {
  RetiredRow retired;
  if (!DecodeRetired(row, retired)) return false;
  for (const Tombstone& tombstone : retired.tombstones) {
    StoredOperation& stored = operations_[AsUuid(tombstone.key)];
    stored = {.version = 1,
              .generation = tombstone.generation,
              .newest_generation = tombstone.newest_generation,
              .is_tombstone = true,
              .operation = tombstone.operation,
              .last_event = row.head.seq,
              .phase = tombstone.phase == Phase::kNone ? Phase::kTombstone : tombstone.phase,
              .wall_ms = tombstone.last_wall_ms};
    moved_.erase(tombstone.operation);
  }
  for (const MovedOperation& moved : retired.moved) {
    moved_[moved.operation] = keys_of_[moved.operation] = AsUuid(moved.key);
  }
  for (const std::uint64_t operation : retired.ended) moved_.erase(operation);
  return true;
}

ImportedTables::Taken ImportedTables::Write(RowWrite write, const RowView& row) {
  Plan plan;
  plan.writes.push_back(std::move(write));
  const PlanNumbers numbers{
      .stream = kPgImportedStream, .first = row.head.seq, .wall_ms = row.head.wall_ms};
  ReadRows rows(opener_, false);
  for (int round = 0; round < kImportRoundsMax; ++round) {
    if (auto changes = ChangesOf(plan, numbers, rows)) {
      Apply(*changes, plan, row);
      return std::move(changes->log.front());
    }
    rows.Take(Answer(rows.wishes()));
  }
  return BadImport(row.head.seq);
}

Fetched ImportedTables::Answer(const Wishes& wishes) {
  Fetched fetched;
  const auto add = [&](const Uuid& key) {
    const auto found = operations_.find(key);
    if (found != operations_.end()) fetched.versions.operations[key] = found->second;
  };
  for (const Uuid& key : wishes.keys) add(key);
  for (const std::uint64_t operation : wishes.operations) {
    const auto key = keys_of_.find(operation);
    if (key == keys_of_.end()) continue;
    fetched.keys_of[operation] = key->second;
    add(key->second);
  }
  for (const Uuid& intent : wishes.intents) {
    const auto found = intents_.find(intent);
    if (found == intents_.end()) continue;
    fetched.versions.intents[intent] = {.version = 1, .row = found->second.row};
  }
  for (const Uuid& key : wishes.flows) {
    const auto found = flows_.find(key);
    if (found != flows_.end()) fetched.versions.flows[key] = found->second.stored;
  }
  for (const std::uint64_t row : wishes.rows) {
    StoredRow read;
    if (row >= first_row_ && reader_.Read(row, read.bytes)) read.place = row;
    fetched.rows[row] = std::move(read);
  }
  return fetched;
}

Uuid ImportedTables::SubjectOf(const RowWrite& write, WorkKind kind) {
  if (const auto* const flow = std::get_if<FlowWrite>(&write)) {
    return AsUuid(FlowKeyOf(flow->state.caller, flow->state.id));
  }
  const Event& event = std::get<EventWrite>(write).event;
  return AsUuid(kind == WorkKind::kFlow ? FlowKeyOf(event.caller, event.flow) : event.key);
}

void ImportedTables::Apply(const Changes& changes, const Plan& plan, const RowView& row) {
  for (const auto& [key, stored] : changes.operations) {
    (operations_[key] = stored).version = 1;
  }
  for (const auto& [intent, stored] : changes.intents) intents_[intent] = {stored.row, false};
  for (const auto& [mark, effect] : changes.marks) intents_[mark] = {effect, true};
  for (const auto& [key, stored] : changes.flows) {
    StoredFlow& flow = flows_[key].stored;
    flow = stored;
    flow.version = 1;
    if (const auto opened = changes.opened.find(key); opened != changes.opened.end()) {
      flow.opened = opened->second;
    }
  }
  for (const auto& [key, more] : changes.steps) flows_[key].stored.steps += more;
  for (const auto& [key, stored] : changes.flows) flows_[key].wall_ms = row.head.wall_ms;
  for (const auto& [key, more] : changes.steps) flows_[key].wall_ms = row.head.wall_ms;
  for (const WorkChange& work : changes.work) {
    if (work.is_done) {
      work_.erase({work.kind, work.subject});
    } else {
      work_[{work.kind, work.subject}] = SubjectOf(plan.writes.front(), work.kind);
    }
  }
}

std::size_t ImportedTables::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      operations_, [](const auto& one) { return one.second.phase == Phase::kDispatching; }));
}

std::uint64_t ImportedTables::low() const {
  std::uint64_t low = 0;
  for (const auto& [key, stored] : operations_) {
    if (stored.phase == Phase::kDispatching && (low == 0 || stored.last_event < low)) {
      low = stored.last_event;
    }
  }
  return low;
}

}  // namespace recourse
