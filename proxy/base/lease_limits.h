// The bounds of leases and take-over: limits.h for ledgers that several processes write into.
#pragma once

#include <chrono>
#include <cstddef>

namespace recourse::limits {

// What a process may send on the strength of one acknowledged batch.
inline constexpr std::chrono::milliseconds kLease{5'000};
// Sending ends so long before its end: reading the clock and calling send() take time, too.
inline constexpr std::chrono::milliseconds kSendMargin{250};
// The kernel gives up what it was handed when the lease ends, also if the process is stopped. It
// counts from when it has sent something for the second time: 0.2 s after the first, and up to a
// second if the server is far.
inline constexpr std::chrono::milliseconds kSentAgainMax{1'000};
// How often a process that lives says that what its backends have not acknowledged may go on.
inline constexpr std::chrono::milliseconds kUnacknowledgedLook{500};
// An open stream that has nothing to write says so often that it lives.
inline constexpr std::chrono::milliseconds kBeatEvery{1'000};
// Who is silent for so long is dead. Clocks of two machines may differ in rate by two fifths.
inline constexpr std::chrono::milliseconds kDeadAfter{7'000};
// How often the watched streams are read, and the longest pause after which silence still counts.
inline constexpr std::chrono::milliseconds kWatchEvery{500};
inline constexpr std::chrono::milliseconds kWatchPauseMax{2'000};
inline constexpr std::size_t kWatchedMax = 3;
// How many of those that a list shows to be silent a process declares dead before it lists again.
inline constexpr std::size_t kDeclaredAtOnceMax = 8;
// How often the open streams of a group are listed: once a second by each of its processes, but at
// most ten times a second by all of them, and a hundred times while something is open. So many
// processes are counted.
inline constexpr std::chrono::milliseconds kListEveryMin{1'000};
inline constexpr std::chrono::milliseconds kListEveryPerIdle{100}, kListEveryPerOpen{10};
inline constexpr std::size_t kListedProcessesMax = 1'000;
// How often a process looks which clients have left, before its next batch, and what asks for that
// at another process looks whether it has told; and for how long: a dead one is found out by then.
inline constexpr std::chrono::milliseconds kClientsLookedEvery{100};
inline constexpr std::chrono::milliseconds kClientsToldMax{12'000};
// How often a process that has something to do measures the database's clock, and from which
// difference on people are told of it.
inline constexpr std::chrono::milliseconds kClockMeasuredEvery{5'000}, kClockJumpTold{5'000};
// So long nothing begins at most, so that a process that is never quiet can leave its stream; and
// in which share of its time.
inline constexpr std::chrono::milliseconds kBeginsPausedMax{1'000};
inline constexpr int kBeginsPausedShare = 50;
// Pauses between attempts to reach the database again, each drawn from none to the bound.
inline constexpr std::chrono::milliseconds kReconnectPauseFirst{50}, kReconnectPauseMax{2'000};

static_assert(kDeadAfter * 5 >= kLease * 7);
static_assert(kBeatEvery * 4 < kLease - kSendMargin);  // three beats may be lost
static_assert(kLease + kSentAgainMax < kDeadAfter);
static_assert(kUnacknowledgedLook * 4 < kLease - kSendMargin - kBeatEvery);
static_assert(kWatchEvery * 3 < kWatchPauseMax && kWatchPauseMax * 3 < kDeadAfter);
// After an outage a live process is back, and has told so, before silence counts again.
static_assert(kReconnectPauseMax + kBeatEvery < kDeadAfter);
static_assert(kDeadAfter + 3 * kBeatEvery < kClientsToldMax);

}  // namespace recourse::limits
