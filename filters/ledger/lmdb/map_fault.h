// What happens when the file under a ledger's map is gone or damaged: one line, and the process
// ends. Nothing that was read through such a map may be told to anybody.
#pragma once

#include <cstdint>

namespace recourse {

// From now on a SIGBUS (a mapped page that the file no longer has) or a failed check inside LMDB
// writes one log line and ends the process with `exit_code`. Calling it again changes the code.
// Process-wide; before that the defaults of the system hold. Thread-safe.
void ExitOnMapFault(int exit_code);

// Ends the process as described, or with abort() when ExitOnMapFault was never called.
// Async-signal-safe.
enum class MapTrouble : std::uint8_t { kUnreadable, kDamagedPage };
[[noreturn]] void MapFault(MapTrouble trouble);

}  // namespace recourse
