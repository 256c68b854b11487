#include "proxy/base/crash_point.h"

#ifdef RECOURSE_CRASH_POINTS

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace recourse {
namespace {

struct Armed {
  std::string name;
  int at = 1;
  int signal = SIGKILL;
  Armed() {
    const char* text = std::getenv("RECOURSE_CRASH_POINT");
    if (text == nullptr) return;
    name = text;
    if (const auto colon = name.find(':'); colon != std::string::npos) {
      at = std::atoi(name.c_str() + colon + 1);
      if (name.ends_with(":stop")) signal = SIGSTOP;
      name.resize(colon);
    }
  }
};

const Armed& ArmedPoint() {
  static const Armed armed;
  return armed;
}

void Record(const char* name) {
  const char* path = std::getenv("RECOURSE_CRASH_HITS");
  if (path == nullptr) return;
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (fd < 0) return;
  const std::string line = std::string(name) + "\n";
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
  ::close(fd);
}

}  // namespace

bool IsCrashPointArmed(const char* name) {
  return !ArmedPoint().name.empty() && ArmedPoint().name == name;
}

bool HasNoWatchdog() {
  static const bool has_none = std::getenv("RECOURSE_TEST_NO_WATCHDOG") != nullptr;
  return has_none;
}

void CrashPoint(const char* name) {
  static std::atomic<int> passes{0};
  if (!IsCrashPointArmed(name)) return;
  if (passes.fetch_add(1) + 1 != ArmedPoint().at) return;
  Record(name);
  // To this thread: another one that took the signal would stop it an instruction or more later.
  ::pthread_kill(::pthread_self(), ArmedPoint().signal);
}

}  // namespace recourse

#endif
