#include "filters/ledger/rules/standing_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "filters/ledger/model/row_id.h"

namespace recourse {
namespace {

std::uint32_t StreamOf(std::uint64_t row) { return UnpackRowId(row).stream; }

// So many effects on one resource are looked at one by one.
constexpr int kContradictionsLooked = 64;

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
}

std::vector<MarkSince> Since(const std::vector<Mark>& marks, std::uint64_t since) {
  std::vector<MarkSince> asked;
  asked.reserve(marks.size());
  for (const Mark& mark : marks) asked.push_back({AsDigest(mark), since});
  return asked;
}

// Row of the last PATCH there; 0: none.
Judged<std::uint64_t> LastPatch(const EventFront& patch, Known& known) {
  const auto last =
      known.Get(IntentOf{AsDigest(MarkOn(MarkOf(patch.resource), WriteKind::kPatch))});
  if (!last) return std::unexpected(last.error());
  return (*last)->value_or(0);
}

Judged<bool> IsContradictedSince(const EventFront& patch, std::uint64_t since, Known& known) {
  const Mark mark = MarkOn(MarkOf(patch.resource), WriteKind::kPatch);
  const auto last = known.Get(MarkSince{AsDigest(mark), since});
  if (!last) return std::unexpected(last.error());
  std::uint64_t row = (*last)->value_or(0);
  for (int looked = 0; row != 0; ++looked) {
    if (looked == kContradictionsLooked) return true;
    const auto found = known.Get(FrontOf{row});
    if (!found) return std::unexpected(found.error());
    const EventFront& other = **found;
    if (other.operation != patch.operation && Contradicts(other.stands, patch.stands)) return true;
    const std::uint64_t before = other.stands.previous;
    if (before == 0) return false;
    row = StreamOf(before) == StreamOf(row) ? std::min(before, row - 1) : before;
    // Another process's row has no order with `since`: it may be behind that.
    if (StreamOf(row) != StreamOf(since)) return true;
    if (row <= since) return false;
  }
  return false;
}

}  // namespace

Judged<bool> IsEndedSince(const EventFront& write, std::uint64_t since, Known& known) {
  const std::vector<MarkSince> marks = Since(EndsOf(write.stands, write.resource), since);
  if (auto all = known.Require(marks); !all) return std::unexpected(all.error());
  for (const MarkSince& mark : marks) {
    const auto row = known.Get(mark);
    if (!row) return std::unexpected(row.error());
    if (**row) return true;
  }
  if (write.stands.kind != WriteKind::kPatch) return false;
  return IsContradictedSince(write, since, known);
}

Judged<bool> IsRemovedSince(const EventFront& write, std::uint64_t since, Known& known) {
  const std::vector<MarkSince> marks = Since(RemovalsOf(write.stands, write.resource), since);
  if (auto all = known.Require(marks); !all) return std::unexpected(all.error());
  for (const MarkSince& mark : marks) {
    const auto row = known.Get(mark);
    if (!row) return std::unexpected(row.error());
    if (!**row) continue;
    const auto removal = known.Get(FrontOf{***row});
    if (!removal) return std::unexpected(removal.error());
    // One that was undone has brought back what it removed.
    const auto found = known.Get(OperationOf{(*removal)->operation});
    if (!found) return std::unexpected(found.error());
    if (!**found || (**found)->entry.phase != Phase::kCompensated) return true;
  }
  return false;
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
    const auto is_over = OrElse(IsEndedSince(write, since, known), true);
    if (!is_over) return std::unexpected(is_over.error());
    stands.is_over = *is_over;
  }
  if (!stands.is_gone && stands.is_over) {
    const auto is_gone = OrElse(IsRemovedSince(write, since, known), false);
    if (!is_gone) return std::unexpected(is_gone.error());
    stands.is_gone = *is_gone;
  }
  return std::move(stands);
}

}  // namespace recourse
