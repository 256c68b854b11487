#include "filters/ledger/engine/operation_index.h"

#include <algorithm>

#include "filters/ledger/rows/earlier_no.h"
#include "filters/ledger/rules/standing_rules.h"

namespace recourse {

OperationIndex::OperationIndex(const LedgerParts& parts, LedgerLog& log, OpenOperations& open)
    : log_(log), open_(open), keys_(*parts.log, parts.cold.get(), parts.hot_entries_max) {
  keys_.set_first_seq(log.first_row());
}

Result<std::optional<Digest>> OperationIndex::KeyOf(std::uint64_t operation) {
  const std::size_t slot = operation % kRecentKeys;
  if (operation != 0 && slot < recent_keys_.size() && recent_keys_[slot].operation == operation) {
    return recent_keys_[slot].key;
  }
  if (const OpenOperation* const open = open_.Find(operation)) return open->key;
  if (const auto moved = moved_.find(operation); moved != moved_.end()) return moved->second;
  if (!log_.Read(operation, row_)) return std::nullopt;
  const auto row = ParseRow(row_);
  if (!row) return std::unexpected(Unreadable(operation));
  EventFront front;
  if (!DecodeEventFront(*row, front) || front.operation != operation) return std::nullopt;
  return front.key;
}

Result<std::optional<FoundOperation>> OperationIndex::Find(std::uint64_t operation) {
  const auto key = KeyOf(operation);
  if (!key) return std::unexpected(key.error());
  if (!*key) return std::nullopt;
  const auto entry = keys_.Find(**key);
  if (!entry) return std::unexpected(entry.error());
  if (!*entry || (*entry)->operation != operation || (*entry)->is_tombstone) return std::nullopt;
  return FoundOperation{**key, **entry};
}

void OperationIndex::Apply(const EventFront& front, std::uint64_t seq, std::int64_t wall_ms,
                           const KeyEntry* previous) {
  // A new attempt has a new answer, which nobody has seen yet.
  const bool is_answered =
      previous != nullptr && previous->is_answered && front.phase != Phase::kDispatching;
  keys_.Put(front.key, {.operation = front.operation,
                        .last_event = seq,
                        .last_wall_ms = wall_ms,
                        .args_hash = front.args_hash,
                        .principal = front.principal,
                        .generation = front.generation,
                        .newest_generation = previous != nullptr ? previous->newest_generation : 0,
                        .attempt = front.attempt,
                        .phase = front.phase,
                        .cause = front.cause,
                        .is_answered = is_answered});
  const std::uint64_t intent_before = NoteIntent(front);
  if (front.stands.kind != WriteKind::kNone) NoteWrite(front, seq, previous);
  if (seq == front.operation) ++operations_;
  // An index that cannot be read has been noticed already by the look-up that led here.
  if (front.generation > 0) {
    (void)keys_.PutGeneration(front.base_key, front.generation, seq, wall_ms);
  }
  if (front.operation < log_.first_row()) moved_[front.operation] = front.key;
  const std::size_t slot = front.operation % kRecentKeys;
  if (slot >= recent_keys_.size()) recent_keys_.resize(slot + 1);
  recent_keys_[slot] = {front.operation, front.key};
  const OpenOperation* const open = open_.Find(front.operation);
  const bool is_moved = front.cause == Cause::kCarried && open != nullptr;
  open_.Track(front.operation,
              {front.key, seq, wall_ms, front.phase, nullptr, front.is_extended, intent_before,
               is_moved ? open->told : seq},
              front.verdict != ObserveVerdict::kNone);
}

// The operation that was sent, or asked about, last stands for the intent, not the one that began
// last. One that had no effect gives that back: an earlier one may have had its effect, and its
// client no answer.
std::uint64_t OperationIndex::NoteIntent(const EventFront& front) {
  if (front.intent == Digest{}) return 0;
  const Digest intent = KeyOfIntent(front.intent, front.principal);
  const OpenOperation* const open = open_.Find(front.operation);
  const std::uint64_t before = open == nullptr ? 0 : open->intent_before;
  if (front.phase != Phase::kDispatching && front.phase != Phase::kClaimed) {
    const bool may_go_on =
        IsOpen(front.phase) || MayHaveEffect(front.phase) || front.cause == Cause::kAsksInput;
    if (before != 0 && !may_go_on) {
      const auto now = keys_.FindIntent(intent);
      if (now && *now == front.operation) keys_.PutIntent(intent, before);
    }
    return before;
  }
  const auto last = keys_.FindIntent(intent);
  const bool is_other = last && *last && **last != front.operation;
  if (is_other) LinkIntent(intent, front.operation, **last);
  keys_.PutIntent(intent, front.operation);
  return is_other ? **last : before;
}

std::uint64_t OperationIndex::BeforeInIntent(const Digest& intent, std::uint64_t operation) {
  const auto before = keys_.FindIntent(KeyOfBefore(intent, operation));
  return before ? before->value_or(0) : 0;
}

// Of equal calls under traces of their own the retry of each is found by this, also when another
// one was answered meanwhile. Most are over before the next one, so there is nothing to link.
void OperationIndex::LinkIntent(const Digest& intent, std::uint64_t operation, std::uint64_t last) {
  std::uint64_t behind = last;
  for (std::uint32_t look = 0; behind != 0 && look < kEqualCallsLooked; ++look) {
    const std::uint64_t before = BeforeInIntent(intent, behind);
    if (before == operation) {  // it is sent again, and leaves its place
      keys_.PutIntent(KeyOfBefore(intent, behind), BeforeInIntent(intent, operation));
      break;
    }
    behind = before;
  }
  while (last != 0) {
    const auto found = Find(last);
    if (!found || (*found && !IsOver((*found)->entry))) break;
    last = BeforeInIntent(intent, last);
  }
  const bool was_linked = BeforeInIntent(intent, operation) != 0;
  if (last != 0 || was_linked) keys_.PutIntent(KeyOfBefore(intent, operation), last);
}

// An effect that was told leaves its marks.
void OperationIndex::NoteWrite(const EventFront& front, std::uint64_t seq,
                               const KeyEntry* previous) {
  const std::vector<Mark> marks = LeftBy(front.stands, front.resource);
  open_.NoteMarks(marks, front, previous);
  const bool is_new = previous == nullptr || !IsExecuted(previous->phase);
  if (!IsExecuted(front.phase) || !is_new) return;
  for (const Mark& mark : marks) keys_.PutIntent(AsDigest(mark), seq);
}

void OperationIndex::ForgetMarks(const EventFront& front, std::uint64_t seq) {
  if (!IsExecuted(front.phase)) return;
  for (const Mark& mark : LeftBy(front.stands, front.resource)) {
    keys_.ForgetIntent(AsDigest(mark), seq);
  }
}

void OperationIndex::NoteNo(std::string_view caller, std::string_view tool, const Digest& args_hash,
                            std::uint64_t operation) {
  keys_.PutIntent(KeyOfNo(caller, tool, args_hash), operation);
  keys_.PutIntent(KeyOfNo(caller, tool), operation);
}

void OperationIndex::SetAnswered(const FoundOperation& found, bool is_answered) {
  KeyEntry entry = found.entry;
  entry.is_answered = is_answered;
  keys_.Put(found.key, entry);
}

void OperationIndex::Apply(const RetiredRow& retired, std::uint64_t seq) {
  for (const Tombstone& tombstone : retired.tombstones) {
    keys_.Put(tombstone.key, EntryOf(tombstone, seq, 0));
  }
  for (const MovedOperation& moved : retired.moved) moved_[moved.operation] = moved.key;
  for (const std::uint64_t operation : retired.ended) moved_.erase(operation);
}

void OperationIndex::Restore(const IndexMark& mark) {
  operations_ = mark.operations;
  tombstones_ = mark.tombstones;
  for (const MovedOperation& moved : mark.moved) moved_[moved.operation] = moved.key;
  keys_.set_stored_seq(mark.applied_seq);
}

void OperationIndex::Replay(const RetiredRow& retired, std::uint64_t seq) {
  operations_ = std::max(operations_, retired.operations);
  tombstones_ = retired.tombstones_total;
  Apply(retired, seq);
}

void OperationIndex::ReplayOpen(const EventFront& front, std::uint64_t seq) {
  NoteWrite(front, seq, nullptr);
}

void OperationIndex::FillMark(IndexMark& mark) const {
  mark.operations = operations_;
  mark.tombstones = tombstones_;
  for (const auto& [operation, key] : moved_) mark.moved.push_back({operation, key});
}

}  // namespace recourse
