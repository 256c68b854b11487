#include "proxy/doctor/disk_facts.h"

#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "filters/ledger/lmdb/file_system.h"
#include "proxy/base/clock.h"

namespace recourse {
namespace {

constexpr int kFlushes = 15;

// The median of a few; negative: it cannot be written.
std::chrono::microseconds FlushTime(int file) {
  const SystemClock clock;
  const std::array<char, 4'096> page{};
  std::vector<std::chrono::microseconds> times;
  for (int i = 0; i < kFlushes; ++i) {
    const MonoTime begun = clock.Now();
    if (::pwrite(file, page.data(), page.size(), 0) != static_cast<ssize_t>(page.size()) ||
        ::fdatasync(file) != 0) {
      return std::chrono::microseconds(-1);
    }
    times.push_back(std::chrono::round<std::chrono::microseconds>(clock.Now() - begun));
  }
  std::ranges::nth_element(times, times.begin() + kFlushes / 2);
  return times[kFlushes / 2];
}

}  // namespace

DiskFacts LookAtDisk(const std::string& data) {
  DiskFacts facts;
  std::error_code error;
  std::filesystem::path directory = std::filesystem::absolute(data, error).lexically_normal();
  while (!std::filesystem::exists(directory, error) && directory.has_relative_path()) {
    directory = directory.parent_path();
    facts.is_data = false;
  }
  facts.directory = directory.string();
  struct statfs info{};
  if (::statfs(facts.directory.c_str(), &info) != 0) {
    facts.failure = std::strerror(errno);
    return facts;
  }
  const FileSystemFacts judged = JudgeFileSystem(static_cast<std::uint64_t>(info.f_type));
  facts.file_system = judged.name;
  if (judged.fit == FileSystemFit::kRefused) facts.refusal = judged.reason;
  facts.free_bytes = std::uint64_t{info.f_bavail} * static_cast<std::uint64_t>(info.f_bsize);
  const int file = ::open(facts.directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {
    facts.failure = std::string("no file can be made there: ") + std::strerror(errno);
    return facts;
  }
  facts.flush = FlushTime(file);
  if (facts.flush.count() < 0) facts.failure = std::strerror(errno);
  ::close(file);
  return facts;
}

}  // namespace recourse
