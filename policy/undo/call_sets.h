// What the body of a call sets, by the names that its backend has for it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

// RFC 6902: an array of operations on paths.
bool IsPatchOfPaths(const Json& body);
// The places that such a patch writes to.
void AddPathsOf(const Json& patch, std::vector<std::string>& places);

// The body as one object that sets the same: of a patch of paths what that adds and replaces, and
// of `a[b]`, as forms have it, a member b of a.
Json SetsOf(const Json& body);

// In such an object: it is set, nobody can tell to what.
bool IsSomehow(const Json& value);

// What `sets` has at the place: of a null, or a text, that stands above it, that one. nullptr: it
// leaves it alone.
const Json* SetAt(const Json& sets, std::string_view place);

}  // namespace recourse
