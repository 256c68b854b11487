#include "filters/ledger/lmdb/file_space.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::uint64_t kStepMin = 256 * 1024;
constexpr std::uint64_t kStepMax = 16 * 1024 * 1024;
constexpr std::uint64_t kStepsPerFile = 256;
constexpr std::uint64_t kPieceMin = 64 * 1024;

}  // namespace

FileSpace::FileSpace(int file, std::uint64_t bytes_max)
    : file_(file),
      bytes_max_(bytes_max),
      step_(std::clamp(bytes_max / kStepsPerFile, kStepMin, kStepMax)) {}

std::uint64_t FileSpace::Secure(std::uint64_t used, std::uint64_t need) {
  secured_ = std::max(secured_, used);
  // A file system that cannot set space aside can only be asked how much there is.
  if (!can_allocate_) return std::min(bytes_max_, used + FreeOnDisk());
  const std::uint64_t wanted = std::min(bytes_max_, used + need + step_);
  if (secured_ >= std::min(bytes_max_, used + need + step_ / 2)) return secured_;
  // On a disk that is nearly full the last pieces are small.
  for (std::uint64_t piece = wanted - secured_; piece >= kPieceMin && secured_ < wanted;) {
    piece = std::min(piece, wanted - secured_);
    if (fallocate(file_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(secured_),
                  static_cast<off_t>(piece)) == 0) {
      secured_ += piece;
    } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
      can_allocate_ = false;
      return std::min(bytes_max_, used + FreeOnDisk());
    } else {
      piece /= 2;
    }
  }
  return secured_;
}

std::uint64_t FileSpace::Reachable() const { return std::min(bytes_max_, secured_ + FreeOnDisk()); }

std::uint64_t FileSpace::FreeOnDisk() const {
  struct statvfs disk = {};
  if (fstatvfs(file_, &disk) != 0) return 0;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

}  // namespace recourse
