#include "proxy/reload/policy_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "proxy/base/check.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

sigset_t WatchedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

void Drain(int fd) {
  char buffer[4096];
  while (::read(fd, buffer, sizeof buffer) > 0) {
  }
}

}  // namespace

void BlockWatchedSignals() {
  const sigset_t signals = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

PolicyWatch::PolicyWatch(const std::vector<std::string>& paths, const Clock& clock)
    : clock_(clock) {
  const sigset_t signals = WatchedSignals();
  signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  RC_CHECK(signals_ >= 0 && wake_ >= 0);
  files_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  for (const std::string& path : paths) {
    if (!path.empty()) Watch(path);
  }
}

void PolicyWatch::Watch(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  constexpr std::uint32_t kChanges =
      IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB;
  bool is_watched = false;
  std::error_code ec;
  if (files_ >= 0) {
    is_watched = ::inotify_add_watch(files_, parent.empty() ? "." : parent.c_str(), kChanges) >= 0;
    if (std::filesystem::is_directory(path, ec)) {
      is_watched = ::inotify_add_watch(files_, path.c_str(), kChanges) >= 0;
    }
  }
  if (!is_watched) {
    Log(LogLevel::kWarn, "a directory cannot be watched for changes; it is looked at now and then",
        {{"path", path}});
  }
}

PolicyWatch::~PolicyWatch() {
  if (signals_ >= 0) ::close(signals_);
  if (files_ >= 0) ::close(files_);
  ::close(wake_);
}

void PolicyWatch::Wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

PolicyWatch::Event PolicyWatch::Wait(Millis longest) {
  MonoTime end = clock_.Now() + longest;
  bool is_noticed = false;
  for (;;) {
    std::array<pollfd, 3> fds{{{signals_, POLLIN, 0}, {files_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const auto left = std::chrono::ceil<Millis>(end - clock_.Now());
    (void)::poll(fds.data(), fds.size(),
                 static_cast<int>(std::max<Millis>(left, Millis{0}).count()));
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) == sizeof info) {
      return info.ssi_signo == SIGHUP ? Event::kReload : Event::kStop;
    }
    if ((fds[1].revents & POLLIN) != 0) {
      Drain(files_);
      is_noticed = true;
      // Several changes in a row are looked at once, and a busy directory does not keep us busy.
      end = std::min(end, clock_.Now() + limits::kPolicyNotice);
    }
    if ((fds[2].revents & POLLIN) != 0) {
      Drain(wake_);
      return is_noticed ? Event::kNotice : Event::kTime;
    }
    if (clock_.Now() >= end) return is_noticed ? Event::kNotice : Event::kTime;
  }
}

}  // namespace recourse
