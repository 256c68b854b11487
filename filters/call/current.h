// Whether what a backend answers to a read of our own tells of what is there now. Pure.
#pragma once

#include <string>
#include <string_view>

#include "filters/upstream.h"
#include "proxy/base/json/json.h"

namespace recourse {

// Not cut off, no part of more, and from no cache.
bool IsWholeAndNew(const Answer& answer);

// Whether it is from a cache, and newer a while later.
bool IsOld(const Answer& answer);

// A gateway's page tells of the gateway: what the backend says is JSON, or nothing.
bool IsOfTheBackend(const Answer& answer);

// Null, false, 0, or empty.
bool IsBlank(const Json& value);
// A member's name without case and signs.
std::string PlainName(std::string_view name);
// Whether a body tells of an error, whatever its status.
bool TellsError(const Json& body);

}  // namespace recourse
