// Whether a call asks its backend, by If-Match, to change only what was read before it. So what its
// undo puts back is what the call has changed.
#pragma once

#include <optional>
#include <string>

#include "filters/call_context.h"
#include "filters/verdict.h"

namespace recourse {

namespace limits {
// How often a call is made that others come before, each time to what is about to be changed.
inline constexpr int kLostRacesMax = 3;
}  // namespace limits

// The version that is asked for; empty: none. Not where another attempt may have been made, a human
// has approved the exact call, the agent has asked for something itself, or the backend
// de-duplicates by a key of ours, under which it may tell a refusal again.
std::string IfMatchOf(const RequestContext& context, const CallBody& body, const Event& begun);

// Whether it was refused for that alone.
bool HasLostRace(const RequestContext& context, const Verdict& verdict);
// By what has been read of it since: nothing was done, and the agent did not ask for that. Where
// that does not show it, a gateway may have sent the call twice: nobody knows. A backend that still
// shows the version that it refused is not asked by it any more: its PUT may compare another one
// than its GET shows, or its 412 mean something else.
Verdict OfLostRace(RequestContext& context, const CallValues& values);

// `verdict` about a DELETE that is told that there is nothing, of what `before` has just read.
// It may be gone by that very call, sent twice by a gateway: nobody knows.
Verdict OfVanished(Verdict verdict, const RequestContext& context, const Event& dispatching);

}  // namespace recourse
