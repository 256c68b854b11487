#include "filters/ledger/lmdb/data_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace recourse {
namespace {

constexpr char kFailedSuffix[] = ".failed";

std::expected<void, std::string> CheckStatus(const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return std::unexpected("data.mdb is not a regular file");
  if (status.st_uid != geteuid() || (status.st_mode & 022U) != 0) {
    return std::unexpected(fmt::format(
        "data.mdb belongs to uid {} with mode {:04o}, so others may change it; chown it to uid {} "
        "and chmod it to 0600",
        status.st_uid, status.st_mode & 07777U, geteuid()));
  }
  return {};
}

}  // namespace

bool TakeFileLock(int file) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

bool LeadsTo(const std::string& path, dev_t device, ino_t inode) {
  struct statx found = {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_INO, &found) == 0) {
    return makedev(found.stx_dev_major, found.stx_dev_minor) == device && found.stx_ino == inode;
  }
  // A sandbox may be older than that call.
  struct stat status = {};
  return errno == EPERM && stat(path.c_str(), &status) == 0 && status.st_dev == device &&
         status.st_ino == inode;
}

std::expected<std::shared_ptr<const DataFile>, std::string> DataFile::Open(
    const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0 && errno == ELOOP) {
    return std::unexpected("data.mdb is a symbolic link; put the file itself there");
  }
  if (file < 0) {
    return std::unexpected(fmt::format("cannot open data.mdb: {}", std::strerror(errno)));
  }
  struct stat status = {};
  std::shared_ptr<const DataFile> opened;
  if (fstat(file, &status) == 0) {
    opened.reset(new DataFile(path, file, status.st_dev, status.st_ino));
  } else {
    close(file);
    return std::unexpected(fmt::format("cannot read data.mdb: {}", std::strerror(errno)));
  }
  if (auto good = CheckStatus(status); !good) return std::unexpected(good.error());
  if (!TakeFileLock(file)) {
    return std::unexpected(
        errno == EAGAIN || errno == EACCES
            ? "data.mdb is in use by another process: is another recourse running on it?"
            : fmt::format("cannot lock data.mdb: {}", std::strerror(errno)));
  }
  return opened;
}

DataFile::~DataFile() { close(file_); }

std::expected<PageFacts, std::string> DataFile::Check(std::size_t pages_max) const {
  struct stat status = {};
  if (fstat(file_, &status) != 0) {
    return std::unexpected(fmt::format("cannot read data.mdb: {}", std::strerror(errno)));
  }
  const auto read = [this](std::uint64_t offset, std::span<char> out) {
    while (!out.empty()) {
      const ssize_t size = pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return false;
      out = out.subspan(static_cast<std::size_t>(size));
      offset += static_cast<std::uint64_t>(size);
    }
    return true;
  };
  const auto expect = [this](std::uint64_t offset, std::uint64_t bytes) {
    (void)posix_fadvise(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                        POSIX_FADV_WILLNEED);  // a hint: it fails without harm
  };
  auto checked = CheckPages(read, expect, static_cast<std::uint64_t>(status.st_size), pages_max);
  if (!checked) return std::unexpected("data.mdb: " + checked.error());
  return checked;
}

void DataFile::NoteFailedCommit(std::uint64_t newest) const {
  const int file = open((path_ + kFailedSuffix).c_str(),
                        O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  const std::string text = std::to_string(newest) + "\n";
  [[maybe_unused]] const ssize_t written = pwrite(file, text.data(), text.size(), 0);
  close(file);
}

bool DataFile::HasFailedCommitAfter(std::uint64_t newest) const {
  const int file = open((path_ + kFailedSuffix).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return false;
  char text[32] = {};
  const ssize_t size = pread(file, text, sizeof text, 0);
  close(file);
  return size > 0 &&
         std::string_view(text, static_cast<std::size_t>(size)) == std::to_string(newest) + "\n";
}

bool DataFile::is_in_place() const { return LeadsTo(path_, device_, inode_); }

}  // namespace recourse
