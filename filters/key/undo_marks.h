// What tells that an agent's call is, or may be, the undo request of another one that does not say
// in its path what it takes back. Pure.
#pragma once

#include "filters/key/key.h"
#include "filters/key/standing_marks.h"
#include "filters/ledger/ledger.h"

namespace recourse {

// What a call leaves behind that may be such an undo request: all of it, and what it names.
void AddUndoMarks(const KeyInputs& inputs, Standing& stands);

// The undo request of an operation that is on its way.
struct OwnUndo {
  const Tool* tool = nullptr;      // of the operation; null: not known
  const UndoRule* rule = nullptr;  // likewise
  const Event& dispatching;
};
// Notes what ends the answer of the operation for certain, and what may have ended it. `body`: of
// the undo request, which writes to `resource`.
void NoteUndoRequest(const HmacKey& secret, const OwnUndo& own, const Digest& resource,
                     const CallBody& body, Transition& transition);
// The same of one that is a call by name.
void NoteUndoCall(const HmacKey& secret, const EffectFacts& facts, const OwnUndo& own,
                  const CallBody& body, Transition& transition);

}  // namespace recourse
