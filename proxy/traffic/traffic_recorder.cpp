#include "proxy/traffic/traffic_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

std::size_t BytesOfCall(const SeenCall& call) {
  return sizeof call + call.path.size() + call.query.size() + call.body.size() + call.answer.size();
}

}  // namespace

TrafficRecorder::TrafficRecorder(std::string directory, const std::string& install_secret,
                                 Random& random)
    : directory_(std::move(directory)), keys_(install_secret), random_(random) {}

TrafficRecorder::~TrafficRecorder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<TrafficRecorder> RecorderIn(const std::string& directory,
                                            const std::string& install_secret, Random& random) {
  if (install_secret.empty()) return nullptr;
  return std::make_unique<TrafficRecorder>(directory, install_secret, random);
}

void TrafficRecorder::Add(SeenCall call) {
  const std::size_t bytes = BytesOfCall(call);
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + bytes > kQueueBytesMax) return;
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
    wake = queue_.empty();
    queued_bytes_ += bytes;
    queue_.push_back(std::move(call));
  }
  if (wake) wake_.notify_one();
}

void TrafficRecorder::Run() {
  NameThread("recourse-seen");
  std::vector<SeenCall> batch;
  for (bool stopping = false; !stopping;) {
    {
      std::unique_lock lock(mutex_);
      // Those that come soon after others are written together.
      wake_.wait_for(lock, kBetweenWrites, [this] { return stop_; });
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      stopping = stop_;
      batch.swap(queue_);
      queued_bytes_ = 0;
    }
    std::string lines;
    for (const SeenCall& call : batch) {
      const auto seen = SightingOf(call, keys_.hashing);
      if (seen) lines += SealLine(TextOf(*seen), keys_.sealing, random_) + "\n";
    }
    batch.clear();
    if (!lines.empty()) Write(lines);
  }
}

void TrafficRecorder::Write(const std::string& lines) {
  const std::string path = TrafficFile(directory_);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  bool is_written = file >= 0;
  for (std::string_view rest = lines; is_written && !rest.empty();) {
    const ssize_t written = ::write(file, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    is_written = written > 0;
    if (is_written) rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (!is_written && !std::exchange(has_failed_, true)) {
    Log(LogLevel::kWarn, "what `recourse policy suggest` reads cannot be written",
        {{"file", path}, {"reason", std::strerror(errno)}});
  }
  struct stat now{};
  if (file >= 0 && ::fstat(file, &now) == 0 &&
      static_cast<std::size_t>(now.st_size) > kFileBytesMax) {
    (void)std::rename(path.c_str(), OlderTrafficFile(directory_).c_str());
  }
  if (file >= 0) ::close(file);
}

}  // namespace recourse
