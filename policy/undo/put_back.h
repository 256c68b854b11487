// Whether an undo puts back all that a call sets. Told by names: an API calls a member of what it
// keeps the same in both requests. Pure.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "policy/template/template.h"

namespace recourse {

namespace limits {
// Of all pointers to what one call sets, as they are kept beside the state before it.
inline constexpr std::size_t kPlacesBytesMax = 8 * 1024;
}  // namespace limits

// What stands before the reason why an undo request was not made, in the detail of an event.
inline constexpr std::string_view kNoUndoMade = "the undo request cannot be made: ";

// Pointers to what the body of a call sets: members that are no objects, or the paths of a JSON
// patch. What stood so before is left out. "" is all of it: the body does not tell.
std::vector<std::string> PlacesSet(const CallValues& call);

// The same; none where no undo of the tool takes a call back by setting what it has set.
std::vector<std::string> PlacesToPutBack(const Tool& tool, const CallValues& call);

// The same kept beside the request that has read the state before the call, and found there.
void NotePlaces(const std::vector<std::string>& places, Headers& fields);
std::vector<std::string> PlacesNoted(const Headers& fields);

// A place among the arguments of a call by name, and the place of `before` that an undo puts there.
struct KeptArgument {
  std::string argument, place;  // pointers
};
// Where calls of the tool set what it keeps: as its undos do. None of a tool with a path.
std::vector<KeptArgument> KeptArguments(const Tool& tool);

// Whether the rule takes a write back by setting what that one has set.
bool PutsBack(const Tool& tool, const UndoRule& rule);

// Whether the rule takes a POST back by the same request with what `before` has read, so that the
// POST sets a state, as a PATCH does.
bool SetsAtPath(const Tool& tool, const UndoRule& rule);

// Whether the undo of that call, by name or a POST, sets back what it sets. Where only the answer,
// or what was there before, chooses the undo, the call may make something.
bool SetsBack(const Tool& tool, const CallValues& call);

// Whether the rule, which puts back, may set that place of a plain request.
bool MaySet(const UndoRule& rule, const std::string& place);

// The undo request of the tool, or why there is none, for people. `set` are the PlacesToPutBack of
// the call. `state`: as RenderUndo has it.
std::expected<RenderedRequest, std::string> MakeUndo(const Tool& tool, const CallValues& values,
                                                     const std::vector<std::string>& set,
                                                     const Json* state = nullptr);

}  // namespace recourse
