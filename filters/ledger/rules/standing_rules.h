// Whether the effect of an operation still stands: the marks that writes leave, and those that end
// one. Of each mark the row of the last effect is known, so that a mark behind an operation's own
// row ends it; what happened before that row, the row itself says. Pure.
#pragma once

#include <cstdint>

#include "filters/ledger/rules/ended.h"
#include "filters/ledger/rules/key_entry.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

// Row of the last dispatch of the write.
inline std::uint64_t DispatchOf(const EventFront& write) {
  return write.stands.dispatched != 0 ? write.stands.dispatched : write.operation;
}

// What another write at the place of its undo request says: kYes for exactly that request, kNo for
// a PATCH of members that the request does not set.
Ended EndedByUndo(const Standing& write, const Standing& other);

// By an effect that became known behind the row `since`.
Judged<Ended> EndedSince(const EventFront& write, std::uint64_t since, Known& known);
// Only what is certain.
Judged<bool> IsEndedSince(const EventFront& write, std::uint64_t since, Known& known);
// Whether what it made was certainly removed by such an effect, so that nothing has to be undone.
Judged<bool> IsRemovedSince(const EventFront& write, std::uint64_t since, Known& known);

// What the row `row` says of the standing of an operation that it dispatches.
void NoteDispatch(std::uint64_t row, Event& event);
// What the row `row` says of its operation's standing. `write` is the event as it is written there,
// `previous` its operation until then.
Judged<Standing> JudgeStanding(EventFront write, std::uint64_t row, const KeyEntry* previous,
                               Known& known);

}  // namespace recourse
