// How long a thread works before others may have its core.
#pragma once

namespace recourse {

// Makes the calling thread one that works in turns of a tenth of a millisecond: who wakes up
// meanwhile goes on next, in place of up to 3 ms later. For work in the background that comes in
// bursts. A hint: kernels before 6.12 ignore it, and so does one that does not allow the call.
void TakeShortTurns();

}  // namespace recourse
