// What a row changes in memory: the key index, the open operations. Live rows and replayed ones
// alike. And the marks, whose row tells of memory.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"
#include "filters/ledger/rows/earlier_no.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/check.h"

namespace recourse {

void LedgerEngine::NoteNo(std::string_view caller, std::string_view tool, const Digest& args_hash,
                          std::uint64_t operation) {
  index_.PutIntent(KeyOfNo(caller, tool, args_hash), operation);
  index_.PutIntent(KeyOfNo(caller, tool), operation);
}

void LedgerEngine::Apply(const Event& event, const KeyEntry* previous) {
  const EventFront front{.operation = event.operation,
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
                         .stands = event.stands};
  ApplyFront(front, event.id, event.wall_ms, previous);
  if (event.phase == Phase::kDenied) {
    NoteNo(event.caller, event.tool, event.args_hash, event.operation);
  }
}

void LedgerEngine::ApplyFront(const EventFront& front, std::uint64_t seq, std::int64_t wall_ms,
                              const KeyEntry* previous) {
  // A new attempt has a new answer, which nobody has seen yet.
  const bool is_answered =
      previous != nullptr && previous->is_answered && front.phase != Phase::kDispatching;
  index_.Put(front.key, {.operation = front.operation,
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
    (void)index_.PutGeneration(front.base_key, front.generation, seq, wall_ms);
  }
  if (front.operation < first_seq_) moved_[front.operation] = front.key;
  const std::size_t slot = front.operation % kRecentKeys;
  if (slot >= recent_keys_.size()) recent_keys_.resize(slot + 1);
  recent_keys_[slot] = {front.operation, front.key};
  const auto open = open_.find(front.operation);
  const bool is_moved = front.cause == Cause::kCarried && open != open_.end();
  TrackOpen(front.operation,
            {front.key, seq, wall_ms, front.phase, nullptr, front.is_extended, intent_before,
             is_moved ? open->second.told : seq},
            front.verdict != ObserveVerdict::kNone);
}

// The operation that was sent, or asked about, last stands for the intent, not the one that began
// last. One that had no effect gives that back: an earlier one may have had its effect, and its
// client no answer.
std::uint64_t LedgerEngine::NoteIntent(const EventFront& front) {
  if (front.intent == Digest{}) return 0;
  const Digest intent = KeyOfIntent(front.intent, front.principal);
  const auto open = open_.find(front.operation);
  const std::uint64_t before = open == open_.end() ? 0 : open->second.intent_before;
  if (front.phase != Phase::kDispatching && front.phase != Phase::kClaimed) {
    const bool may_go_on =
        IsOpen(front.phase) || MayHaveEffect(front.phase) || front.cause == Cause::kAsksInput;
    if (before != 0 && !may_go_on) {
      const auto now = index_.FindIntent(intent);
      if (now && *now == front.operation) index_.PutIntent(intent, before);
    }
    return before;
  }
  const auto last = index_.FindIntent(intent);
  const bool is_other = last && *last && **last != front.operation;
  if (is_other) LinkIntent(intent, front.operation, **last);
  index_.PutIntent(intent, front.operation);
  return is_other ? **last : before;
}

std::uint64_t LedgerEngine::BeforeInIntent(const Digest& intent, std::uint64_t operation) {
  const auto before = index_.FindIntent(KeyOfBefore(intent, operation));
  return before ? before->value_or(0) : 0;
}

// Of equal calls under traces of their own the retry of each is found by this, also when another
// one was answered meanwhile. Most are over before the next one, so there is nothing to link.
void LedgerEngine::LinkIntent(const Digest& intent, std::uint64_t operation, std::uint64_t last) {
  std::uint64_t behind = last;
  for (std::uint32_t look = 0; behind != 0 && look < kEqualCallsLooked; ++look) {
    const std::uint64_t before = BeforeInIntent(intent, behind);
    if (before == operation) {  // it is sent again, and leaves its place
      index_.PutIntent(KeyOfBefore(intent, behind), BeforeInIntent(intent, operation));
      break;
    }
    behind = before;
  }
  while (last != 0) {
    const auto found = FindByOperation(last);
    if (!found || (*found && !IsOver((*found)->entry))) break;
    last = BeforeInIntent(intent, last);
  }
  const bool was_linked = BeforeInIntent(intent, operation) != 0;
  if (last != 0 || was_linked) index_.PutIntent(KeyOfBefore(intent, operation), last);
}

// What observe mode never learned will never be settled, so it does not stay open.
void LedgerEngine::TrackOpen(std::uint64_t operation, const OpenOperation& state,
                             bool is_observed) {
  const auto at = open_.lower_bound(operation);
  const bool is_there = at != open_.end() && at->first == operation;
  if (is_there && at->second.phase == Phase::kDispatching) {
    --running_;
    if (QuotaUsage::Use* const caller = std::exchange(at->second.caller, nullptr)) {
      --caller->running;
    }
  }
  if (state.phase == Phase::kDispatching) ++running_;
  if (!IsOpen(state.phase) || (is_observed && state.phase == Phase::kUncertain)) {
    if (is_there) open_.erase(at);
  } else if (is_there) {
    const std::int64_t since_ms = at->second.since_ms;
    at->second = state;
    at->second.since_ms = since_ms;
  } else {
    open_.emplace_hint(at, operation, state);
  }
}

void LedgerEngine::AppendAlias(const Alias& alias) {
  const RowHead head = NextHead(RowKind::kAlias);
  AppendAliasRow(batch_.bytes, head, alias);
  CloseRow();
  (void)index_.PutAlias(alias, head.seq, head.wall_ms);
}

void LedgerEngine::MarkAnswered(AttemptId answered) {
  if (is_latched_) return;
  auto found = FindByOperation(answered.operation);
  if (!found || !*found || (*found)->entry.is_answered) return;
  if ((*found)->entry.attempt != answered.attempt) return;
  if (marks_.size() >= limits::kLedgerQueueMax || is_full_)
    return;  // forgetting errs towards replay
  (*found)->entry.is_answered = true;
  index_.Put((*found)->key, (*found)->entry);
  marks_.push_back(answered.operation);
}

void LedgerEngine::MarkUnread(AttemptId answered) {
  if (is_latched_) return;
  auto found = FindByOperation(answered.operation);
  if (!found || !*found || !(*found)->entry.is_answered) return;
  if ((*found)->entry.attempt != answered.attempt) return;
  (*found)->entry.is_answered = false;
  index_.Put((*found)->key, (*found)->entry);
  if (std::erase(marks_, answered.operation) > 0) return;  // the log does not say it yet
  if (marks_.size() < limits::kLedgerQueueMax && !is_full_) {
    marks_.push_back(answered.operation | kUnreadMark);
  }
}

void LedgerEngine::AppendMarks() {
  AppendAnsweredRow(batch_.bytes, NextHead(RowKind::kAnswered), marks_);
  CloseRow();
  marks_.clear();
}

std::shared_ptr<const IndexSnapshot> LedgerEngine::Freeze() {
  RC_CHECK(batch_.empty() && !is_latched_);
  IndexMark mark{.applied_seq = head_.seq,
                 .applied_hash = head_.hash,
                 .first_seq = first_seq_,
                 .operations = operations_,
                 .tombstones = tombstones_,
                 .accepted_seq = accepted_seq_,
                 .open = {},
                 .moved = {},
                 .flows = flows_.Encode()};
  mark.open.reserve(open_.size() + claims_.size());
  for (const auto& [operation, state] : open_) mark.open.push_back({operation, state.last_event});
  for (const auto& [operation, claim] : claims_) {
    mark.open.push_back({operation, claim.last_event});
  }
  // A call may wait for its approval while later ones come and go.
  std::ranges::sort(mark.open, {}, &OpenReference::operation);
  for (const auto& [operation, key] : moved_) mark.moved.push_back({operation, key});
  return index_.Freeze(std::move(mark));
}

}  // namespace recourse
