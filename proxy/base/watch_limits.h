// The bounds of those who watch the ledger: limits.h for GET /operations and GET /stream.
#pragma once

#include <chrono>
#include <cstddef>

namespace recourse::limits {

// One page of operations: how many, and how much of the log it may cost.
inline constexpr std::size_t kOperationsPageMax = 200;
inline constexpr std::size_t kOperationsWindowRows = 256;
inline constexpr std::size_t kOperationsScanRows = 20'000;
inline constexpr std::size_t kOperationsScanBytes = 32 * 1024 * 1024;
// What comes is told together; who is further behind than the backlog is told to ask anew; a stream
// ends after a while, so that its watcher's right to watch is asked for again.
inline constexpr std::size_t kStreamWatchersMax = 32;
inline constexpr std::size_t kStreamPageRows = 200;
inline constexpr std::size_t kStreamBacklogRows = 10'000;
inline constexpr std::chrono::milliseconds kStreamPause{50};
// How often a shared ledger is asked for what others wrote, while somebody watches; and how long a
// place in it may be that a client keeps.
inline constexpr std::chrono::milliseconds kStreamLook{250};
inline constexpr std::size_t kStreamPlaceBytes = 4'096;
inline constexpr std::chrono::milliseconds kStreamHeartbeat{15'000};
inline constexpr std::chrono::milliseconds kStreamStall{30'000};  // a watcher who takes nothing
inline constexpr std::chrono::milliseconds kStreamFor{10 * 60'000};

}  // namespace recourse::limits
