// The forgetting part of ReferenceEngine: old rows leave the front of the log, and what must
// outlive them moves on to its end, in one commit.
#include <algorithm>
#include <utility>

#include "filters/ledger/rules/retention.h"
#include "proxy/base/check.h"
#include "proxy/base/log/log.h"
#include "tests/differential/reference.h"

namespace recourse {
namespace {

// How exactly ages are known: a mark per so much of the retention.
Millis SpacingOf(const LedgerRule& rule) {
  const Millis shorter = std::min(rule.retention, rule.tombstones) / limits::kAgeMarksPerRetention;
  return std::clamp(shorter, Millis(limits::kAgeSpacingMin), Millis(limits::kAgeSpacingMax));
}

}  // namespace

Millis ReferenceEngine::RetireEvery(const LedgerRule& rule) { return SpacingOf(rule); }

Result<ReferenceEngine::Retired> ReferenceEngine::Retire(const LedgerRule& rule) {
  Retired retired;
  if (is_latched_) return retired;  // what could not be committed is still in the batch
  RC_CHECK(batch_.empty());
  if (index_.is_damaged() || head_.seq == 0) return retired;
  const MonoTime now = clock_.Now();
  const bool is_marked = ages_.Mark(now, head_.seq, SpacingOf(rule));
  retention_ms_ = rule.retention.count();
  // A flow that is idle for longer than anything is kept holds nothing back.
  flows_.CloseIdle(now - std::min<Millis>(rule.retention, limits::kFlowIdle), limits::kFlowsMax,
                   limits::kRetireRows);
  RetireStep step;
  step.through = std::min(ages_.OldThrough(now, rule.retention), head_.seq);
  step.lived_ms = ages_.LivedMs(now);
  step.tombstones_ms = rule.tombstones.count();
  step.base.first_seq = first_seq_;
  std::vector<std::string> rows;
  if (!ReadOldRows(step.through, rows)) return std::unexpected(Unreadable(first_seq_));
  const Result<void> looked_at = RetireRows(rows, step);
  retired.rows = step.base.first_seq - first_seq_;
  retired.more = retired.rows > 0 && step.base.first_seq <= step.through;
  FinishRetire(now, is_marked, step);
  if (auto committed = Commit(); !committed) return std::unexpected(committed.error());
  if (!looked_at) return std::unexpected(looked_at.error());
  retired.is_late = retired.more && OldestRowMs() - retention_ms_ > retention_ms_ / 4;
  return retired;
}

// As many as can be read: what they became is committed even if the next one is damaged.
Result<void> ReferenceEngine::RetireRows(const std::vector<std::string>& rows, RetireStep& step) {
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

void ReferenceEngine::FinishRetire(MonoTime now, bool is_marked, RetireStep& step) {
  const bool has_rows = step.base.first_seq > first_seq_;
  for (const auto& [operation, key] : step.moved) step.row.moved.push_back({operation, key});
  // One row is always left: it carries the row number, the epoch and the chain on.
  const bool is_last_one = step.base.first_seq > head_.seq && batch_.size() == 0;
  if (!step.row.empty() || is_last_one) {
    step.row.operations = operations_;
    step.row.tombstones_total = tombstones_;
    const RowHead head = NextHead(RowKind::kRetired);
    AppendRetiredRow(batch_.bytes, head, step.row);
    CloseRow();
    ApplyRetired(step.row, head.seq);
  }
  if (has_rows) batch_.base = step.base;
  if (is_marked || has_rows) batch_.ages = ages_.Encode(now);
}

// Copies: looking at one row means looking up others.
bool ReferenceEngine::ReadOldRows(std::uint64_t through, std::vector<std::string>& rows) {
  if (through < first_seq_) return true;
  // What is carried on needs room before the old rows leave.
  const std::uint64_t bytes_max = std::min<std::uint64_t>(limits::kRetireBytes, free_bytes_ / 8);
  std::size_t bytes_read = 0;
  return reader_->Scan(first_seq_, limits::kRetireRows,
                       [&](std::uint64_t seq, std::string_view bytes) {
                         if (seq > through || bytes_read > bytes_max) return false;
                         bytes_read += bytes.size();
                         rows.emplace_back(bytes);
                         return true;
                       });
}

Result<bool> ReferenceEngine::RetireRow(const RowView& row, RetireStep& step) {
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

Result<void> ReferenceEngine::RetireEvent(const RowView& row, RetireStep& step) {
  EventFront front;
  if (!DecodeEventFront(row, front)) return std::unexpected(Unreadable(row.head.seq));
  if (row.head.seq >= process_first_seq_) {
    Event event;
    if (!DecodeEvent(row, AnswerPart::kSkipBody, opener_, event))
      return std::unexpected(Unreadable(row.head.seq));
    callers_.Free(event.caller, kRowHeadBytes + row.payload.size());
  }
  const auto own = index_.Locate(front.key);
  if (!own) return std::unexpected(own.error());
  if (*own && (*own)->last_event == row.head.seq) {
    if (auto done = RetireLast(row, front, **own, step); !done) return done;
  } else if (*own && front.operation == row.head.seq) {
    // A later row says what is true now, but this one gave the operation its name, and began it in
    // its flow.
    KeepFlowOf(row, front.operation);
    const auto entry = index_.Find(front.key);
    if (!entry) return std::unexpected(entry.error());
    const bool is_kept = *entry && !(*entry)->is_alias && !(*entry)->is_tombstone &&
                         (*entry)->operation == front.operation;
    if (is_kept) step.moved[front.operation] = front.key;
  }
  ForgetWrite(front, row.head.seq);
  if (front.generation == 0) return {};
  return RetireBase(front.base_key, row, step);
}

// Perhaps only this row said that there are later generations.
Result<void> ReferenceEngine::RetireBase(const Digest& base_key, const RowView& row,
                                         RetireStep& step) {
  const auto base = index_.Locate(base_key);
  if (!base) return std::unexpected(base.error());
  if (*base && (*base)->last_event == row.head.seq) {
    AddTombstone({.key = base_key, .newest_generation = (*base)->newest_generation}, row, step);
  }
  return {};
}

// The row that holds its operation's state.
Result<void> ReferenceEngine::RetireLast(const RowView& row, const EventFront& front,
                                         const ColdEntry& own, RetireStep& step) {
  std::uint32_t newest_generation = own.newest_generation;
  if (front.generation > 0) {
    const auto base = index_.Locate(front.base_key);
    if (!base) return std::unexpected(base.error());
    newest_generation = *base ? (*base)->newest_generation : front.generation;
  }
  const auto news = NewsOf(row);
  const bool is_held = news && flows_.HoldsStep(news->caller, news->flow, front.operation);
  const RetentionFate fate = is_held ? RetentionFate::kCarry : FateOf(front, newest_generation);
  if (fate == RetentionFate::kCarry) {
    KeepFlowOf(row, front.operation);
    const auto entry = index_.Find(front.key);
    if (!entry) return std::unexpected(entry.error());
    if (!*entry) return std::unexpected(Unreadable(row.head.seq));
    if (auto done = CopyForward(row, front, **entry); !done) return done;
    if (front.operation == row.head.seq) step.moved[front.operation] = front.key;
    return {};
  }
  EndOperation(front, step);
  const auto is_over = StandsNoMore(front, row.head.seq);
  if (!is_over) return std::unexpected(is_over.error());
  const bool is_alone = front.generation == 0 && newest_generation == 0;
  if (fate == RetentionFate::kForget || (*is_over && is_alone)) {
    index_.Forget(front.key);
  } else {
    AddTombstone({.key = front.key,
                  .operation = front.operation,
                  .generation = front.generation,
                  .newest_generation = own.newest_generation,
                  .phase = *is_over ? Phase::kCompensated : front.phase},
                 row, step);
  }
  return {};
}

// The first row of a step of a flow leaves, so that from now on a row of its own tells of the flow.
void ReferenceEngine::KeepFlowOf(const RowView& row, std::uint64_t operation) {
  const auto news = NewsOf(row);
  const FlowState* const flow = news ? flows_.Find(news->caller, news->flow) : nullptr;
  if (flow == nullptr || flow->row != 0) return;
  const bool has_step = std::ranges::any_of(flow->steps, [&](const FlowStep& step) {
    return step.operation == operation || step.undo == operation;
  });
  if (has_step) AppendFlow(*flow);
}

// To the end of the log.
Result<void> ReferenceEngine::CopyForward(const RowView& row, const EventFront& front,
                                          const KeyEntry& entry) {
  Event event;
  if (!DecodeEvent(row, AnswerPart::kLoad, opener_, event)) {
    return std::unexpected(Unreadable(row.head.seq));
  }
  if (!event.is_locked) {
    event.cause = Cause::kCarried;
    return AppendEvent(event, &entry);
  }
  // What its key seals cannot be written anew, so it moves on as it is.
  const RowHead head = NextHead(RowKind::kEvent);
  if (!AppendLockedRow(batch_.bytes, head, row)) {
    return std::unexpected(Unreadable(row.head.seq));
  }
  CloseRow();
  callers_.Store(event.caller, batch_.row(batch_.size() - 1).size());
  ApplyFront(front, head.seq, head.wall_ms, &entry);
  ++locked_carried_;
  Log(LogLevel::kError, "an open operation that cannot be read is kept beyond the retention",
      {{"row", std::to_string(row.head.seq)},
       {"moved_to", std::to_string(head.seq)},
       {"operation", std::to_string(front.operation)},
       {"reason", event.detail},
       {"do", "put the key's line back into the key file"}});
  return {};
}

void ReferenceEngine::AddTombstone(Tombstone tombstone, const RowView& row, RetireStep& step) {
  if (tombstone.phase == Phase::kNone) tombstone.phase = Phase::kTombstone;
  tombstone.last_wall_ms = DatedMs(row.head.seq, row.head.wall_ms, WallMs());
  tombstone.since_ms = step.lived_ms;
  step.row.tombstones.push_back(tombstone);
  ++tombstones_;
}

void ReferenceEngine::EndOperation(const EventFront& front, RetireStep& step) {
  index_.ForgetIntent(KeyOfIntent(front.intent, front.principal), front.operation);
  if (step.moved.erase(front.operation) == 0 && moved_.contains(front.operation)) {
    step.row.ended.push_back(front.operation);
  }
}

Result<void> ReferenceEngine::RetireAlias(const RowView& row, RetireStep& step) {
  Alias alias;
  if (!DecodeAlias(row, alias)) return std::unexpected(Unreadable(row.head.seq));
  const Digest key = KeyOfGeneration(alias.key, alias.generation);
  const auto own = index_.Locate(key);
  if (!own) return std::unexpected(own.error());
  const auto base = index_.Locate(alias.key);
  if (!base) return std::unexpected(base.error());
  if (*own && (*own)->last_event == row.head.seq) {
    const bool is_newest = !*base || (*base)->newest_generation <= alias.generation;
    const auto target = FindByOperation(alias.operation);
    if (!target) return std::unexpected(target.error());
    if (*target && is_newest) {
      AppendAlias(alias);
    } else if (alias.generation > 0 && !is_newest) {
      index_.Forget(key);
    } else {
      AddTombstone({.key = key,
                    .operation = alias.operation,
                    .generation = alias.generation,
                    .newest_generation = (*own)->newest_generation},
                   row, step);
    }
  }
  return alias.generation == 0 ? Result<void>() : RetireBase(alias.key, row, step);
}

// The policy in force stays known.
Result<void> ReferenceEngine::RetirePolicy(const RowView& row) {
  if (row.head.seq != policy_seq_) return {};
  PolicyChange change;
  if (!DecodePolicy(row, change)) return std::unexpected(Unreadable(row.head.seq));
  return RecordPolicy(change);
}

// All of them, or none: then the next step has room for them.
Result<bool> ReferenceEngine::RetireTombstones(const RowView& row, RetireStep& step) {
  RetiredRow retired;
  if (!DecodeRetired(row, retired)) return std::unexpected(Unreadable(row.head.seq));
  if (!step.row.tombstones.empty() &&
      step.row.tombstones.size() + retired.tombstones.size() > limits::kRetireTombstones) {
    return false;
  }
  for (Tombstone& tombstone : retired.tombstones) {
    const auto own = index_.Locate(tombstone.key);
    if (!own) return std::unexpected(own.error());
    if (!*own || (*own)->last_event != row.head.seq) {
      --tombstones_;  // its key has become a new operation
      continue;
    }
    tombstone.newest_generation = (*own)->newest_generation;
    const auto later = LaterOf(tombstone.key, tombstone.newest_generation);
    if (!later) return std::unexpected(later.error());
    if (IsOver(tombstone, *later, step.lived_ms, step.tombstones_ms)) {
      --tombstones_;
      index_.Forget(tombstone.key);
    } else {
      // The row it moves to may be written after a jump of the wall clock, and its date goes by
      // that row.
      tombstone.last_wall_ms = DatedMs(row.head.seq, tombstone.last_wall_ms, WallMs());
      step.row.tombstones.push_back(tombstone);
    }
  }
  return true;
}

Result<Later> ReferenceEngine::LaterOf(const Digest& key, std::uint32_t newest_generation) {
  if (newest_generation == 0) return Later::kNone;
  const auto newest = index_.Locate(KeyOfGeneration(key, newest_generation));
  if (!newest) return std::unexpected(newest.error());
  return *newest ? Later::kKept : Later::kNone;
}

void ReferenceEngine::ApplyRetired(const RetiredRow& retired, std::uint64_t seq) {
  for (const Tombstone& tombstone : retired.tombstones) {
    index_.Put(tombstone.key, EntryOf(tombstone, seq, 0));
  }
  for (const MovedOperation& moved : retired.moved) moved_[moved.operation] = moved.key;
  for (const std::uint64_t operation : retired.ended) moved_.erase(operation);
}

std::int64_t ReferenceEngine::OldestRowMs() const {
  return first_seq_ > head_.seq ? 0 : ages_.LivedMs(clock_.Now()) - ages_.OldestMs();
}

}  // namespace recourse
