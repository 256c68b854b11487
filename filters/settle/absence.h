// When a probe's answer states that there is no effect. Pure.
#pragma once

#include "filters/upstream.h"
#include "policy/model/policy.h"

namespace recourse {

// True only where the answer says so itself: a condition of the rule's `absent` holds, the list
// that `happened` looks into is there and empty, or it is a 404 that the route's own server gave
// (JSON, or without a body). What may be old (Age), partial (206), somebody else's (203) or not
// ready (202), and a page with another one behind it, state nothing.
bool StatesAbsence(const SettleRule& rule, const Answer& answer);

// Whether a condition of the rule's `absent` holds of it.
bool SaysAbsent(const SettleRule& rule, const Answer& answer);

// Whether a list in the answer can be relied upon as far as it goes: a whole success of the route's
// own server, neither old nor partial, which tells of no error.
bool MayShowList(const Answer& answer);
// Whether no further page follows, as far as the answer says.
bool EndsList(const Answer& answer);

}  // namespace recourse
