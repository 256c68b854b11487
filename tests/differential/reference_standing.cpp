// Whether the effect of an operation still stands: the marks that writes leave, and those that end
// one. The index knows of each mark the row of the last effect, so that a mark behind an
// operation's own row ends it; what happened before that row, the row itself says.
#include <algorithm>

#include "filters/ledger/model/standing_notes.h"
#include "tests/differential/reference.h"

namespace recourse {
namespace {

// So many effects on one resource are looked at one by one.
constexpr int kContradictionsLooked = 64;

bool HadItsEffect(Phase phase) { return phase == Phase::kSucceeded || phase == Phase::kAnswerLost; }

std::uint64_t DispatchOf(const EventFront& write) {
  return write.stands.dispatched != 0 ? write.stands.dispatched : write.operation;
}

}  // namespace

Result<EventFront> ReferenceEngine::ReadEventFront(std::uint64_t seq) {
  EventFront front;
  if (!ReadRow(seq, row_)) return std::unexpected(Unreadable(seq));
  const auto row = ParseRow(row_);
  if (!row || !DecodeEventFront(*row, front)) return std::unexpected(Unreadable(seq));
  front.flow_name = {};
  return front;
}

Result<Ended> ReferenceEngine::IsSuperseded(const NewOperation& call,
                                            const std::optional<Found>& found) {
  if (!call.may_be_superseded || !found || found->entry.is_tombstone) return Ended::kNo;
  const KeyEntry& entry = found->entry;
  if (!HadItsEffect(entry.phase) && entry.phase != Phase::kCompensated) return Ended::kNo;
  const auto write = ReadEventFront(entry.last_event);
  if (!write) return std::unexpected(write.error());
  if (write->stands.kind == WriteKind::kNone) return Ended::kNo;
  if (write->stands.is_over || entry.phase == Phase::kCompensated) return Ended::kYes;
  const auto ended = EndedSince(*write, entry.last_event);
  if (!ended || *ended == Ended::kYes) return ended;
  const auto is_open = IsEndedByOpen(*write);
  if (!is_open) return std::unexpected(is_open.error());
  if (*ended == Ended::kNo && !*is_open) return Ended::kNo;
  return IsIdempotent(call.event.stands.kind) ? Ended::kYes : Ended::kPerhaps;
}

// Writes of somebody else, and those that its query may narrow, are not certain to have ended it,
// unless its policy says so.
Result<Ended> ReferenceEngine::EndedBy(const EventFront& write, const Mark& mark,
                                       std::uint64_t row) {
  if (IsIdempotent(write.stands.kind)) return Ended::kYes;
  const auto effect = ReadEventFront(row);
  if (!effect) return std::unexpected(effect.error());
  if (NoteIn(effect->stands, NoteKind::kUnproven)) return Ended::kPerhaps;
  if (IsDeclared(write.stands, write.resource, mark)) return Ended::kYes;
  if (IsOfWhole(write.stands, mark)) return Ended::kPerhaps;
  const bool is_others = effect->principal != kNoPrincipal && write.principal != kNoPrincipal &&
                         effect->principal != write.principal;
  return is_others ? Ended::kPerhaps : Ended::kYes;
}

Result<Ended> ReferenceEngine::EndedSince(const EventFront& write, std::uint64_t since) {
  Ended ended = IsInDoubt(write.stands) ? Ended::kPerhaps : Ended::kNo;
  for (const Mark& mark : EndsOf(write.stands, write.resource)) {
    const auto row = index_.FindSince(AsDigest(mark), since);
    if (!row) return std::unexpected(row.error());
    if (!*row) continue;
    const auto by_that = EndedBy(write, mark, **row);
    if (!by_that || *by_that == Ended::kYes) return by_that;
    ended = Ended::kPerhaps;
  }
  for (const Mark& mark : DoubtsOf(write.stands)) {
    const auto row = index_.FindSince(AsDigest(mark), since);
    if (!row) return std::unexpected(row.error());
    if (*row) ended = Either(ended, Ended::kPerhaps);
  }
  if (write.stands.kind != WriteKind::kPatch) return ended;
  const auto contradicted = ContradictedSince(write, since);
  if (!contradicted) return contradicted;
  return Either(ended, *contradicted);
}

Result<bool> ReferenceEngine::IsEndedSince(const EventFront& write, std::uint64_t since) {
  const auto ended = EndedSince(write, since);
  if (!ended) return std::unexpected(ended.error());
  return *ended == Ended::kYes;
}

Result<Ended> ReferenceEngine::ContradictedSince(const EventFront& patch, std::uint64_t since) {
  const Mark mark = MarkOn(MarkOf(patch.resource), WriteKind::kPatch);
  const auto last = index_.FindIntent(AsDigest(mark));
  if (!last) return std::unexpected(last.error());
  std::uint64_t row = last->value_or(0);
  for (int looked = 0; row > since; ++looked) {
    if (looked == kContradictionsLooked) return Ended::kPerhaps;
    const auto other = ReadEventFront(row);
    if (!other) return std::unexpected(other.error());
    if (other->operation != patch.operation && Contradicts(other->stands, patch.stands)) {
      return EndedBy(patch, mark, row);
    }
    if (other->stands.previous == 0) return Ended::kNo;
    row = std::min(other->stands.previous, row - 1);
  }
  return Ended::kNo;
}

Result<bool> ReferenceEngine::IsEndedByOpen(const EventFront& write) {
  if (open_marks_.empty()) return false;
  const auto ends = [&](const Mark& mark, bool is_patch) -> Result<bool> {
    const auto [first, last] = open_marks_.equal_range(AsDigest(mark));
    for (auto at = first; at != last; ++at) {
      const auto open = open_.find(at->second);
      if (at->second == write.operation || open == open_.end()) continue;
      // What became unknown before this one was sent is not later.
      const bool is_later =
          open->second.phase == Phase::kDispatching || open->second.told > DispatchOf(write);
      if (!is_later) continue;
      if (!is_patch) return true;
      const auto other = ReadEventFront(open->second.last_event);
      if (!other) return std::unexpected(other.error());
      if (Contradicts(other->stands, write.stands)) return true;
    }
    return false;
  };
  std::vector<Mark> marks = EndsOf(write.stands, write.resource);
  const std::vector<Mark> doubts = DoubtsOf(write.stands);
  marks.insert(marks.end(), doubts.begin(), doubts.end());
  for (const Mark& mark : marks) {
    const auto ended = ends(mark, false);
    if (!ended || *ended) return ended;
  }
  if (write.stands.kind != WriteKind::kPatch) return false;
  return ends(MarkOn(MarkOf(write.resource), WriteKind::kPatch), true);
}

Result<bool> ReferenceEngine::IsRemovedSince(const EventFront& write, std::uint64_t since) {
  for (const Mark& mark : RemovalsOf(write.stands, write.resource)) {
    const auto row = index_.FindSince(AsDigest(mark), since);
    if (!row) return std::unexpected(row.error());
    if (!*row) continue;
    const auto by_that = EndedBy(write, mark, **row);
    if (!by_that) return std::unexpected(by_that.error());
    if (*by_that != Ended::kYes) continue;
    const auto removal = ReadEventFront(**row);
    if (!removal) return std::unexpected(removal.error());
    // One that was undone has brought back what it removed.
    const auto found = FindByOperation(removal->operation);
    if (!found) return std::unexpected(found.error());
    if (!*found || (*found)->entry.phase != Phase::kCompensated) return true;
  }
  return false;
}

Result<bool> ReferenceEngine::StandsNoMore(const EventFront& write, std::uint64_t row) {
  if (write.stands.kind == WriteKind::kNone || write.stands.is_named) return false;
  if (write.phase == Phase::kCompensated) return true;
  if (!HadItsEffect(write.phase)) return false;
  if (write.stands.is_over) return true;
  return IsEndedSince(write, row);
}

Result<bool> ReferenceEngine::IsGone(std::uint64_t operation) {
  const auto found = FindByOperation(operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return false;
  const auto write = ReadEventFront((*found)->entry.last_event);
  if (!write) return std::unexpected(write.error());
  if (write->stands.is_gone) return true;
  return IsRemovedSince(*write, (*found)->entry.last_event);
}

void ReferenceEngine::JudgeStanding(Event& event, const KeyEntry* previous) {
  Standing& stands = event.stands;
  if (stands.kind == WriteKind::kNone) return;
  if (event.phase == Phase::kDispatching && event.cause != Cause::kCarried) {
    // What a resend finds done may have been done by the attempt before it.
    if (event.cause != Cause::kResend || stands.dispatched == 0) stands.dispatched = event.id;
    stands.is_over = stands.is_gone = false;
    DropNotes(NoteKind::kInDoubt, stands);
  }
  if (!HadItsEffect(event.phase) || previous == nullptr) return;
  const EventFront write{.operation = event.operation,
                         .principal = event.principal,
                         .resource = event.resource,
                         .stands = stands};
  const bool is_first = !HadItsEffect(previous->phase);
  if (is_first && stands.kind == WriteKind::kPatch) {
    const auto last =
        index_.FindIntent(AsDigest(MarkOn(MarkOf(event.resource), WriteKind::kPatch)));
    stands.previous = last ? last->value_or(0) : 0;
  }
  // An index that cannot be read refuses everything from then on.
  const std::uint64_t since = is_first ? DispatchOf(write) : previous->last_event;
  const Ended ended = stands.is_over ? Ended::kYes : EndedSince(write, since).value_or(Ended::kYes);
  stands.is_over = ended == Ended::kYes;
  if (ended == Ended::kPerhaps) NoteDoubt(stands);
  stands.is_gone =
      stands.is_gone || (stands.is_over && IsRemovedSince(write, since).value_or(false));
}

// Of what runs and of what is not known the marks may be there; an effect that was told leaves
// them.
void ReferenceEngine::NoteWrite(const EventFront& front, std::uint64_t seq,
                                const KeyEntry* previous) {
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
  const bool is_new = previous == nullptr || !HadItsEffect(previous->phase);
  if (!HadItsEffect(front.phase) || !is_new) return;
  for (const Mark& mark : marks) index_.PutIntent(AsDigest(mark), seq);
}

void ReferenceEngine::ForgetWrite(const EventFront& front, std::uint64_t seq) {
  if (!HadItsEffect(front.phase)) return;
  for (const Mark& mark : LeftBy(front.stands, front.resource)) {
    index_.ForgetIntent(AsDigest(mark), seq);
  }
}

}  // namespace recourse
