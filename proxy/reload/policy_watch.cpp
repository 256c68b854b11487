#include "proxy/reload/policy_watch.h"

#include <signal.h>
#include <sys/inotify.h>

#include <algorithm>
#include <filesystem>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::initializer_list<int> kWatchedSignals{SIGTERM, SIGINT, SIGHUP};

void WatchPath(int files, const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  constexpr std::uint32_t kChanges =
      IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB;
  bool is_watched = false;
  std::error_code ec;
  if (files >= 0) {
    is_watched = ::inotify_add_watch(files, parent.empty() ? "." : parent.c_str(), kChanges) >= 0;
    if (std::filesystem::is_directory(path, ec)) {
      is_watched = ::inotify_add_watch(files, path.c_str(), kChanges) >= 0;
    }
  }
  if (!is_watched) {
    Log(LogLevel::kWarn, "a directory cannot be watched for changes; it is looked at now and then",
        {{"path", path}});
  }
}

// Negative when the kernel gives none.
int WatchFiles(const std::vector<std::string>& paths) {
  const int files = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  for (const std::string& path : paths) {
    if (!path.empty()) WatchPath(files, path);
  }
  return files;
}

}  // namespace

void BlockWatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kWatchedSignals) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

PolicyWatch::PolicyWatch(const std::vector<std::string>& paths, const Clock& clock)
    : clock_(clock), wait_(kWatchedSignals, WatchFiles(paths)) {}

PolicyWatch::Event PolicyWatch::Wait(Millis longest) {
  MonoTime end = clock_.Now() + longest;
  bool is_noticed = false;
  for (;;) {
    const auto left = std::chrono::ceil<Millis>(end - clock_.Now());
    const SignalWait::News news = wait_.Wait(std::max<Millis>(left, Millis{0}));
    if (news.signal != 0) return news.signal == SIGHUP ? Event::kReload : Event::kStop;
    if (news.has_files) {
      is_noticed = true;
      // Several changes in a row are looked at once, and a busy directory does not keep us busy.
      end = std::min(end, clock_.Now() + limits::kPolicyNotice);
    }
    if (news.is_woken) return Event::kNotice;
    if (clock_.Now() >= end) return is_noticed ? Event::kNotice : Event::kTime;
  }
}

}  // namespace recourse
