// What LedgerEngine knows of the marks that writes leave (standing_rules.h).
#include <algorithm>

#include "filters/ledger/engine/ledger_engine.h"
#include "filters/ledger/rules/standing_rules.h"

namespace recourse {
Result<EventFront> LedgerEngine::ReadEventFront(std::uint64_t seq) {
  EventFront front;
  if (!ReadRow(seq, row_)) return std::unexpected(Unreadable(seq));
  const auto row = ParseRow(row_);
  if (!row || !DecodeEventFront(*row, front)) return std::unexpected(Unreadable(seq));
  front.flow_name = {};
  return front;
}

Result<bool> LedgerEngine::IsEndedSince(const EventFront& write, std::uint64_t since) {
  return Judge([&](Known& known) { return recourse::IsEndedSince(write, since, known); });
}

Result<bool> LedgerEngine::StandsNoMore(const EventFront& write, std::uint64_t row) {
  if (write.stands.kind == WriteKind::kNone || write.stands.is_named) return false;
  if (write.phase == Phase::kCompensated) return true;
  if (!IsExecuted(write.phase)) return false;
  if (write.stands.is_over) return true;
  return IsEndedSince(write, row);
}

// Of what runs and of what is not known the marks may be there; an effect that was told leaves
// them.
void LedgerEngine::NoteWrite(const EventFront& front, std::uint64_t seq, const KeyEntry* previous) {
  const std::vector<Mark> marks = LeftBy(front.stands, front.resource);
  const bool is_observed = front.verdict != ObserveVerdict::kNone;
  const auto counts_as_open = [&](Phase phase) {
    return phase == Phase::kDispatching || (phase == Phase::kUncertain && !is_observed);
  };
  const bool is_open = counts_as_open(front.phase);
  const bool was_open = previous != nullptr && previous->operation == front.operation &&
                        counts_as_open(previous->phase);
  for (const Mark& mark : marks) {
    const Digest key = AsDigest(mark);
    if (is_open && !was_open) open_marks_.emplace(key, front.operation);
    if (is_open || !was_open) continue;
    const auto [first, last] = open_marks_.equal_range(key);
    const auto own =
        std::find_if(first, last, [&](const auto& one) { return one.second == front.operation; });
    if (own != last) open_marks_.erase(own);
  }
  const bool is_new = previous == nullptr || !IsExecuted(previous->phase);
  if (!IsExecuted(front.phase) || !is_new) return;
  for (const Mark& mark : marks) index_.PutIntent(AsDigest(mark), seq);
}

void LedgerEngine::ForgetWrite(const EventFront& front, std::uint64_t seq) {
  if (!IsExecuted(front.phase)) return;
  for (const Mark& mark : LeftBy(front.stands, front.resource)) {
    index_.ForgetIntent(AsDigest(mark), seq);
  }
}

}  // namespace recourse
