#include "proxy/telemetry/access_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "proxy/base/thread_name.h"

namespace recourse {

AccessLog::AccessLog(const std::string& target) {
  if (target == "off") return;
  fd_ = target == "-" ? ::dup(STDOUT_FILENO)
                      : ::open(target.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd_ < 0) {
    throw std::runtime_error("cannot open the access log " + target + ": " + std::strerror(errno));
  }
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
  for (bool stopping = false; !stopping;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      // More lines come soon, and are written together.
      wake_.wait_for(lock, std::chrono::milliseconds(100),
                     [this] { return stop_ || queue_.size() >= kWakeBytes; });
      stopping = stop_;
      batch.swap(queue_);
    }
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
