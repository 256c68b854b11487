#include "filters/ledger/lmdb/ledger_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace recourse {
namespace {

constexpr char kLockName[] = "recourse.lock";
constexpr char kSealName[] = "recourse.sealed";

std::string Reason() { return std::strerror(errno); }

std::string HolderOf(int file) {
  char text[32] = {};
  const ssize_t size = pread(file, text, sizeof text - 1, 0);
  std::string holder(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder.empty() ? "unknown" : holder;
}

// An open-file-description lock: unlike a process lock it is not lost when any other descriptor of
// the file is closed, and it works between processes that share a number (two containers).
std::expected<void, std::string> TakeLock(int file, const std::string& directory) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file, F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) {
      return std::unexpected(fmt::format("cannot lock {}: {}", directory, Reason()));
    }
    return std::unexpected(
        fmt::format("{} is in use by process {}: is another recourse running on this directory?",
                    directory, HolderOf(file)));
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return std::unexpected(fmt::format("cannot write into {}: {}", directory, Reason()));
  }
  return {};
}

std::expected<void, std::string> SyncDirectory(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const std::string reason = Reason();
  if (file >= 0) close(file);
  if (!done) return std::unexpected(fmt::format("cannot sync {}: {}", path, reason));
  return {};
}

}  // namespace

std::expected<std::unique_ptr<LedgerDirectory>, std::string> LedgerDirectory::Lock(
    const std::string& directory) {
  struct stat info = {};
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(fmt::format("cannot create {}: {}", directory, Reason()));
  }
  if (stat(directory.c_str(), &info) != 0) {
    return std::unexpected(fmt::format("cannot read {}: {}", directory, Reason()));
  }
  if (!S_ISDIR(info.st_mode)) {
    return std::unexpected(fmt::format("{} is not a directory; name one for --data", directory));
  }
  const std::string name = directory + "/" + kLockName;
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return std::unexpected(fmt::format("cannot open {}: {}", name, Reason()));
  if (auto locked = TakeLock(file, directory); !locked) {
    close(file);
    return std::unexpected(locked.error());
  }
  return std::unique_ptr<LedgerDirectory>(new LedgerDirectory(directory, file));
}

LedgerDirectory::~LedgerDirectory() { close(lock_file_); }

bool LedgerDirectory::is_sealed() const { return access(PathOf(kSealName).c_str(), F_OK) == 0; }

std::expected<void, std::string> LedgerDirectory::Seal() {
  const std::string name = PathOf(kSealName);
  const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return std::unexpected(fmt::format("cannot create {}: {}", name, Reason()));
  close(file);
  if (auto synced = SyncDirectory(path_); !synced) return synced;
  // The directory's own name, when it was created just now.
  const auto parent = std::filesystem::absolute(path_).lexically_normal().parent_path();
  return SyncDirectory(parent.string());
}

std::uint64_t LedgerDirectory::FileBytes(const std::string& name) const {
  struct stat info = {};
  if (stat(PathOf(name).c_str(), &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.st_size);
}

std::expected<void, std::string> LedgerDirectory::Remove(const std::string& name) {
  std::error_code error;
  std::filesystem::remove(PathOf(name), error);
  if (error) {
    return std::unexpected(fmt::format("cannot remove {}: {}", PathOf(name), error.message()));
  }
  return {};
}

std::expected<void, std::string> LedgerDirectory::Renew(const std::string& name) {
  std::error_code error;
  std::filesystem::remove_all(PathOf(name), error);
  if (!error) std::filesystem::create_directory(PathOf(name), error);
  if (error)
    return std::unexpected(fmt::format("cannot renew {}: {}", PathOf(name), error.message()));
  return {};
}

}  // namespace recourse
