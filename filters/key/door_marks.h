// What a call through one door of a service (`same_as`) does to the answers that were given at
// another one. Pure.
#pragma once

#include "filters/key/key.h"
#include "filters/key/standing_marks.h"
#include "filters/ledger/ledger.h"

namespace recourse {

// What the call leaves, and what ends it, at the path of the tool that it is a door to.
void AddDoor(const KeyInputs& inputs, Standing& stands);

// What at the other doors takes the effect back for certain: their undo requests, and what
// `undo_call`, the operation's own one, is a door to. `undo_call` may be null.
void AddDoorEnds(const HmacKey& secret, const EffectFacts& facts, const Event& dispatching,
                 const CallBody* undo_call, Transition& transition);

}  // namespace recourse
