// Named places where a test build can be killed. Compiled out of release.
//
// RECOURSE_CRASH_POINT=k05:3 ends the process with SIGKILL at the third pass through k05;
// k05:3:stop suspends it there with SIGSTOP instead.
// RECOURSE_CRASH_HITS=FILE   names a file to which the name of the point is appended at the kill.
// RECOURSE_TEST_NO_WATCHDOG=1   leaves leases without their watchdog: what it is for can be shown.
#pragma once

#ifdef RECOURSE_CRASH_POINTS
namespace recourse {
// All are thread-safe.
void CrashPoint(const char* name);
bool IsCrashPointArmed(const char* name);
bool HasNoWatchdog();
}  // namespace recourse
#define RC_CRASH_POINT(name) ::recourse::CrashPoint(name)
// For a point inside one write: only when it is armed may the write be cut in two, so that a test
// build otherwise sends exactly what a release sends.
#define RC_CRASH_POINT_ARMED(name) ::recourse::IsCrashPointArmed(name)
#define RC_HAS_NO_WATCHDOG() ::recourse::HasNoWatchdog()
#else
#define RC_CRASH_POINT(name) static_cast<void>(0)
#define RC_CRASH_POINT_ARMED(name) false
#define RC_HAS_NO_WATCHDOG() false
#endif
