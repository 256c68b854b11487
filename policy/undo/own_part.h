// What of a state that the answer to a call shows is that call's own doing. Between the reading of
// the state before it and the call itself somebody else may have written: what he wrote is never
// taken for the call's. Pure.
#pragma once

#include <string_view>

#include "policy/model/policy.h"
#include "policy/template/snapshot.h"
#include "policy/template/template.h"

namespace recourse {

// `shown` by the answer to `call`, for its undo by that rule. What the undo would write over, and
// the call may not have put there, stands as the call was to leave it (`planned`): so the undo
// finds it changed. `before` is the state that was read; the call's method is `method`.
Snapshot OwnPart(const Tool& tool, const UndoRule& undo, std::string_view method,
                 const CallValues& call, const Snapshot& before, const Snapshot& planned,
                 Snapshot shown);

// Whether a call with `method` takes away what it does not name, as a PUT does unless the policy
// says of an undo that the rest stays.
bool ReplacesWhole(const Tool& tool, std::string_view method);

// Whether `now` shows that a call with `method` has not been made since `before` was read: all that
// it sets stands as it stood, and some of that as something else. What stands there as anything
// else by now may be a form in which the backend shows what the call sets. What is absent proves
// nothing: not everything is ever shown.
bool ShowsUnmade(const Tool& tool, std::string_view method, const CallValues& call,
                 const Snapshot& before, const Snapshot& now);

// Whether a backend that was told `set` may show it so: with more members, as the thing of that
// name, without blanks, upper case or markup, or with a time of day.
bool IsFormOf(const Json& set, const Json* shown);

}  // namespace recourse
