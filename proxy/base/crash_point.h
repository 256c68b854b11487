// Named places where a test build can be killed (semantics 2.5). Compiled out of release.
//
// RECOURSE_CRASH_POINT=k05:3 ends the process with SIGKILL at the third pass through k05.
// RECOURSE_CRASH_HITS=FILE   names a file to which the name of the point is appended at the kill.
#pragma once

#ifdef RECOURSE_CRASH_POINTS
namespace recourse {
// Thread-safe.
void CrashPoint(const char* name);
}  // namespace recourse
#define RC_CRASH_POINT(name) ::recourse::CrashPoint(name)
#else
#define RC_CRASH_POINT(name) static_cast<void>(0)
#endif
