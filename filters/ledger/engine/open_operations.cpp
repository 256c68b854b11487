#include "filters/ledger/engine/open_operations.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/rules/standing_rules.h"

namespace recourse {
namespace {

// Beyond this many open operations the oldest one is looked for now and then only.
constexpr std::size_t kOpenScannedAlways = 256;
constexpr std::uint64_t kCommitsBetweenScans = 64;

}  // namespace

OpenOperation* OpenOperations::Find(std::uint64_t operation) {
  const auto at = open_.find(operation);
  return at == open_.end() ? nullptr : &at->second;
}

std::int64_t OpenOperations::OldestMs(std::uint64_t commits) {
  if (open_.size() > kOpenScannedAlways && commits % kCommitsBetweenScans != 0) {
    return oldest_ms_;
  }
  std::int64_t oldest = 0;
  for (const auto& [operation, state] : open_) {
    oldest = oldest == 0 ? state.since_ms : std::min(oldest, state.since_ms);
  }
  oldest_ms_ = oldest;
  return oldest;
}

// What observe mode never learned will never be settled, so it does not stay open.
void OpenOperations::Track(std::uint64_t operation, const OpenOperation& state, bool is_observed) {
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

// Of what runs and of what is not known the marks may be there.
void OpenOperations::NoteMarks(const std::vector<Mark>& marks, const EventFront& front,
                               const KeyEntry* previous) {
  const bool is_observed = front.verdict != ObserveVerdict::kNone;
  const auto counts_as_open = [&](Phase phase) {
    return phase == Phase::kDispatching || (phase == Phase::kUncertain && !is_observed);
  };
  const bool is_open = counts_as_open(front.phase);
  const bool was_open = previous != nullptr && previous->operation == front.operation &&
                        counts_as_open(previous->phase);
  if (is_open == was_open) return;
  for (const Mark& mark : marks) {
    const Digest key = AsDigest(mark);
    if (is_open) {
      marks_.emplace(key, front.operation);
      continue;
    }
    const auto [first, last] = marks_.equal_range(key);
    const auto own =
        std::find_if(first, last, [&](const auto& one) { return one.second == front.operation; });
    if (own != last) marks_.erase(own);
  }
}

std::vector<OpenWritesAt::Open> OpenOperations::At(const Digest& mark, std::uint64_t since) {
  std::vector<OpenWritesAt::Open> writes;
  const auto [first, last] = marks_.equal_range(mark);
  for (auto at = first; at != last; ++at) {
    const OpenOperation* const state = Find(at->second);
    if (state == nullptr) continue;
    if (state->phase != Phase::kDispatching && state->told <= since) continue;
    writes.push_back({at->second, state->last_event});
  }
  return writes;
}

}  // namespace recourse
