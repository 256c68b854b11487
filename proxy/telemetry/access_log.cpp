#include "proxy/telemetry/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

int OpenToAppend(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

}  // namespace

AccessLog::AccessLog(const std::string& target) : target_(target) {
  if (target == "off") return;
  fd_ = target == "-" ? ::dup(STDOUT_FILENO) : OpenToAppend(target);
  if (fd_ < 0) {
    throw std::runtime_error("cannot open the access log " + target + ": " + std::strerror(errno));
  }
  // Or a line would wait while those before it are copied. Address space: memory is taken as it is
  // written to.
  queue_.reserve(kQueueBytesMax);
  thread_ = std::thread([this] { Run(); });
}

void AccessLog::Close() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  stop_ = true;
  wake_.notify_one();
  if (!ended_.wait_for(lock, kLastWords, [this] { return has_ended_; })) return thread_.detach();
  lock.unlock();
  thread_.join();
  ::close(fd_);
  fd_ = -1;
}

void AccessLog::Reopen() {
  if (!thread_.joinable() || target_ == "-") return;
  {
    const std::lock_guard lock(mutex_);
    reopens_ = true;
  }
  wake_.notify_one();
}

// Of its thread. The old file stays where there is no new one.
void AccessLog::OpenAnew() {
  const int file = OpenToAppend(target_);
  if (file < 0 || ::dup3(file, fd_, O_CLOEXEC) < 0) {
    Log(LogLevel::kWarn, "the access log cannot be opened anew",
        {{"file", target_}, {"reason", std::strerror(errno)}});
  }
  if (file >= 0) ::close(file);
}

void AccessLog::Append(std::string_view line) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() + line.size() > kQueueBytesMax) {
      ++dropped_;
      return;
    }
    wake =
        queue_.empty() || (queue_.size() < kWakeBytes && queue_.size() + line.size() >= kWakeBytes);
    queue_.append(line);
  }
  if (wake) wake_.notify_one();
}

std::uint64_t AccessLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void AccessLog::Run() {
  NameThread("recourse-log");
  std::string batch;
  batch.reserve(kQueueBytesMax);
  for (bool stopping = false; !stopping;) {
    bool reopens = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || reopens_ || !queue_.empty(); });
      // More lines come soon, and are written together.
      wake_.wait_for(lock, std::chrono::milliseconds(100),
                     [this] { return stop_ || queue_.size() >= kWakeBytes; });
      stopping = stop_;
      reopens = std::exchange(reopens_, false);
      batch.swap(queue_);
    }
    if (reopens) OpenAnew();
    for (std::string_view rest = batch; !rest.empty();) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        const std::lock_guard lock(mutex_);
        dropped_ += static_cast<std::uint64_t>(std::count(rest.begin(), rest.end(), '\n'));
        break;
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    batch.clear();
  }
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  ended_.notify_one();
}

}  // namespace recourse
