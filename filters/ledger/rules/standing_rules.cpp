#include "filters/ledger/rules/standing_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/model/standing_notes.h"

namespace recourse {
namespace {

std::uint32_t StreamOf(std::uint64_t row) { return UnpackRowId(row).stream; }

// So many effects on one resource are looked at one by one.
constexpr int kEffectsLooked = 64;

// An index that cannot be read refuses everything from then on: what is told until then errs to one
// side.
template <class T>
Judged<T> OrElse(Judged<T> judged, T otherwise) {
  if (judged || std::holds_alternative<Need>(judged.error())) return judged;
  return otherwise;
}

void Dispatch(Cause cause, std::uint64_t row, Standing& stands) {
  // What a resend finds done may have been done by the attempt before it.
  if (cause != Cause::kResend || stands.dispatched == 0) stands.dispatched = row;
  stands.is_over = stands.is_gone = false;
  DropNotes(NoteKind::kInDoubt, stands);
}

std::vector<MarkSince> Since(std::uint64_t since, const std::vector<Mark>& marks,
                             const std::vector<Mark>& more = {}) {
  std::vector<MarkSince> asked;
  asked.reserve(marks.size() + more.size());
  for (const Mark& mark : marks) asked.push_back({AsDigest(mark), since});
  for (const Mark& mark : more) asked.push_back({AsDigest(mark), since});
  return asked;
}

// Row of the last PATCH there; 0: none.
Judged<std::uint64_t> LastPatch(const EventFront& patch, Known& known) {
  const auto last =
      known.Get(IntentOf{AsDigest(MarkOn(MarkOf(patch.resource), WriteKind::kPatch))});
  if (!last) return std::unexpected(last.error());
  return (*last)->value_or(0);
}

// Whether the effect, which left the mark, certainly is what the mark says.
bool Proves(const EventFront& effect, const EventFront& write, const Mark& mark) {
  if (NoteIn(effect.stands, NoteKind::kUnproven)) return false;
  if (IsDeclared(write.stands, write.resource, mark)) return true;
  if (IsOfWhole(write.stands, mark)) return false;
  // A path may mean another thing to another user.
  const bool is_others = effect.principal != kNoPrincipal && write.principal != kNoPrincipal &&
                         effect.principal != write.principal;
  if (is_others) return false;
  // What its query narrows a write to is not known: it leaves a mark on its whole path too.
  const bool is_elsewhere = effect.resource != Digest{} &&
                            !NoteIn(effect.stands, NoteKind::kExact) &&
                            !AreOfOnePlace(MarkOf(effect.resource), mark);
  const auto is_there = [&](const Mark& place) { return AreOfOnePlace(place, mark); };
  return !is_elsewhere ||
         !(is_there(MarkOf(write.resource)) || std::ranges::any_of(write.stands.made, is_there));
}

// What came of one mark.
struct End {
  Ended ended = Ended::kNo;
  std::uint64_t row = 0;  // kYes: of that effect
};

Judged<End> EndAt(const Mark& mark, const EventFront& write, std::uint64_t since, Known& known) {
  const auto row = known.Get(MarkSince{AsDigest(mark), since});
  if (!row) return std::unexpected(row.error());
  if (!**row) return End{};
  // To make it again does no harm.
  if (IsIdempotent(write.stands.kind)) return End{Ended::kYes, ***row};
  const auto effect = known.Get(FrontOf{***row});
  if (!effect) return std::unexpected(effect.error());
  return End{Proves(**effect, write, mark) ? Ended::kYes : Ended::kPerhaps, ***row};
}

// Looks at the writes at one place, newest first, as far as they are linked. `says`: what one of
// them says; the first that says anything counts.
template <class Says>
Judged<End> NewestAt(const Mark& mark, const EventFront& write, std::uint64_t since, Known& known,
                     Says says) {
  const auto last = known.Get(MarkSince{AsDigest(mark), since});
  if (!last) return std::unexpected(last.error());
  std::uint64_t row = (*last)->value_or(0);
  for (int looked = 0; row != 0; ++looked) {
    if (looked == kEffectsLooked) return End{Ended::kPerhaps};
    const auto found = known.Get(FrontOf{row});
    if (!found) return std::unexpected(found.error());
    const EventFront& other = **found;
    const Ended ended = other.operation == write.operation ? Ended::kNo : says(other);
    if (ended == Ended::kYes && Proves(other, write, mark)) return End{ended, row};
    if (ended != Ended::kNo) return End{Ended::kPerhaps};
    if (other.stands.kind != WriteKind::kPatch || !AreOfOnePlace(MarkOf(other.resource), mark)) {
      // What was there before is not linked.
      return End{other.operation == write.operation ? Ended::kNo : Ended::kPerhaps};
    }
    const std::uint64_t before = other.stands.previous;
    if (before == 0) return End{};
    row = StreamOf(before) == StreamOf(row) ? std::min(before, row - 1) : before;
    // Another process's row has no order with `since`: it may be behind that.
    if (StreamOf(row) != StreamOf(since)) return End{Ended::kPerhaps};
    if (row <= since) return End{};
  }
  return End{};
}

Judged<End> UndoneSince(const EventFront& write, std::uint64_t since, Known& known) {
  End end;
  for (const Mark& place : UndoPlaces(write.stands)) {
    // Of two PATCHes of one place their members tell.
    const bool is_own = write.stands.kind == WriteKind::kPatch && write.resource != Digest{} &&
                        place == MarkOn(MarkOf(write.resource), WriteKind::kPatch);
    if (is_own) continue;
    const auto here = NewestAt(place, write, since, known, [&](const EventFront& other) {
      return EndedByUndo(write.stands, other.stands);
    });
    if (!here || here->ended == Ended::kYes) return here;
    end.ended = Either(end.ended, here->ended);
  }
  return end;
}

Judged<End> ContradictedSince(const EventFront& patch, std::uint64_t since, Known& known) {
  const Mark mark = MarkOn(MarkOf(patch.resource), WriteKind::kPatch);
  return NewestAt(mark, patch, since, known, [&](const EventFront& other) {
    return Contradicts(other.stands, patch.stands) ? Ended::kYes : Ended::kNo;
  });
}

// One that was undone has brought back what it removed, and a MOVE has only taken it elsewhere.
// `mark`: what it left; null: it is no MOVE.
Judged<bool> IsStillThere(std::uint64_t row, const Mark* mark, Known& known) {
  const auto removal = known.Get(FrontOf{row});
  if (!removal) return std::unexpected(removal.error());
  const bool was_moved = mark != nullptr && (*removal)->stands.kind == WriteKind::kOther &&
                         AreOfOnePlace(MarkOf((*removal)->resource), *mark);
  if (was_moved) return true;
  const auto found = known.Get(OperationOf{(*removal)->operation});
  if (!found) return std::unexpected(found.error());
  return **found && (**found)->entry.phase == Phase::kCompensated;
}

}  // namespace

Ended EndedByUndo(const Standing& write, const Standing& other) {
  const auto undo = NoteIn(write, NoteKind::kUndoContent);
  if (undo && NoteIn(other, NoteKind::kContent) == undo) return Ended::kYes;
  const std::vector<MemberDigest> sets = UndoMembers(write);
  const bool is_comparable =
      !sets.empty() && other.kind == WriteKind::kPatch && other.members == Members::kListed;
  const bool has_common = std::ranges::any_of(other.values, [&](const MemberDigest& member) {
    return std::ranges::find(sets, member.name, &MemberDigest::name) != sets.end();
  });
  return is_comparable && !has_common ? Ended::kNo : Ended::kPerhaps;
}

Judged<Ended> EndedSince(const EventFront& write, std::uint64_t since, Known& known) {
  const std::vector<Mark> marks = EndsOf(write.stands, write.resource);
  const std::vector<Mark> doubts = DoubtsOf(write.stands);
  if (auto all = known.Require(Since(since, marks, doubts)); !all) {
    return std::unexpected(all.error());
  }
  Ended ended = IsInDoubt(write.stands) ? Ended::kPerhaps : Ended::kNo;
  for (const Mark& mark : marks) {
    const auto here = EndAt(mark, write, since, known);
    if (!here) return std::unexpected(here.error());
    if (here->ended == Ended::kYes) return Ended::kYes;
    ended = Either(ended, here->ended);
  }
  for (const Mark& mark : doubts) {
    const auto row = known.Get(MarkSince{AsDigest(mark), since});
    if (!row) return std::unexpected(row.error());
    if (**row) ended = Either(ended, Ended::kPerhaps);
  }
  const auto undone = UndoneSince(write, since, known);
  if (!undone) return std::unexpected(undone.error());
  ended = Either(ended, undone->ended);
  if (ended == Ended::kYes || write.stands.kind != WriteKind::kPatch) return ended;
  const auto contradicted = ContradictedSince(write, since, known);
  if (!contradicted) return std::unexpected(contradicted.error());
  return Either(ended, contradicted->ended);
}

Judged<bool> IsEndedSince(const EventFront& write, std::uint64_t since, Known& known) {
  const auto ended = EndedSince(write, since, known);
  if (!ended) return std::unexpected(ended.error());
  return *ended == Ended::kYes;
}

Judged<bool> IsRemovedSince(const EventFront& write, std::uint64_t since, Known& known) {
  const std::vector<Mark> marks = RemovalsOf(write.stands, write.resource);
  if (auto all = known.Require(Since(since, marks)); !all) return std::unexpected(all.error());
  for (const Mark& mark : marks) {
    const auto here = EndAt(mark, write, since, known);
    if (!here) return std::unexpected(here.error());
    if (here->ended != Ended::kYes) continue;
    const auto is_there = IsStillThere(here->row, &mark, known);
    if (!is_there) return std::unexpected(is_there.error());
    if (!*is_there) return true;
  }
  const bool is_made =
      write.stands.kind == WriteKind::kPost || write.stands.kind == WriteKind::kOther;
  if (!is_made) return false;
  const auto undone = UndoneSince(write, since, known);
  if (!undone) return std::unexpected(undone.error());
  if (undone->ended != Ended::kYes) return false;
  const auto is_there = IsStillThere(undone->row, nullptr, known);
  if (!is_there) return std::unexpected(is_there.error());
  return !*is_there;
}

void NoteDispatch(std::uint64_t row, Event& event) {
  Standing& stands = event.stands;
  const bool is_sent = event.phase == Phase::kDispatching && event.cause != Cause::kCarried;
  if (is_sent && stands.kind != WriteKind::kNone) Dispatch(event.cause, row, stands);
}

Judged<Standing> JudgeStanding(EventFront write, std::uint64_t row, const KeyEntry* previous,
                               Known& known) {
  Standing& stands = write.stands;
  if (stands.kind == WriteKind::kNone) return std::move(stands);
  if (write.phase == Phase::kDispatching && write.cause != Cause::kCarried) {
    Dispatch(write.cause, row, stands);
  }
  if (!IsExecuted(write.phase) || previous == nullptr) return std::move(stands);
  const bool is_first = !IsExecuted(previous->phase);
  if (is_first && stands.kind == WriteKind::kPatch) {
    const auto last = OrElse(LastPatch(write, known), std::uint64_t{0});
    if (!last) return std::unexpected(last.error());
    stands.previous = *last;
  }
  const std::uint64_t since = is_first ? DispatchOf(write) : previous->last_event;
  if (!stands.is_over) {
    const auto ended = OrElse(EndedSince(write, since, known), Ended::kYes);
    if (!ended) return std::unexpected(ended.error());
    stands.is_over = *ended == Ended::kYes;
    if (*ended == Ended::kPerhaps) NoteDoubt(stands);
  }
  if (!stands.is_gone && stands.is_over) {
    const auto is_gone = OrElse(IsRemovedSince(write, since, known), false);
    if (!is_gone) return std::unexpected(is_gone.error());
    stands.is_gone = *is_gone;
  }
  return std::move(stands);
}

}  // namespace recourse
