// How long a read waits, for its backend and for a client that may have left.
#pragma once

#include "proxy/lanes/read_state.h"

namespace recourse {

// How long a stream may say nothing.
Millis QuietMax(const ReadState& read);

// When a client that waits for its answer is looked at first.
MonoTime FirstLook(const ReadState& read, MonoTime now);

// Until when the head of the answer is waited for, without a look at the client on the way.
MonoTime AnswerDue(const ReadState& read, MonoTime now);

// From here on a client that leaves ends the read. An answer may be long in coming, a stream silent
// for long; a client that went away meanwhile must not hold the backend.
void StartWatch(ReadState& read);

}  // namespace recourse
