// What the first process of a PID namespace, as most containers have one, does in place of working.
#pragma once

namespace recourse {

// The kernel spares such a process every signal from inside its namespace, so that the watchdog of
// its lease could not end it (filters/ledger/lease/watchdog.h). There this returns in a child. The
// first process passes signals on to it, waits for orphans, and ends with its exit code, or with
// 128 and the signal that ended it. Elsewhere it does nothing. Call before any thread is started.
void WorkInChildOfFirst();

}  // namespace recourse
