// Whether what a backend answers to a read of our own tells of what is there now. Pure.
#pragma once

#include "filters/upstream.h"

namespace recourse {

// Not cut off, no part of more, and from no cache.
bool IsWholeAndNew(const Answer& answer);

// Whether it is from a cache, and newer a while later.
bool IsOld(const Answer& answer);

// A gateway's page tells of the gateway: what the backend says is JSON, or nothing.
bool IsOfTheBackend(const Answer& answer);

}  // namespace recourse
