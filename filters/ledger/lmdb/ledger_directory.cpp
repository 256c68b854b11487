#include "filters/ledger/lmdb/ledger_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "filters/ledger/lmdb/data_file.h"
#include "filters/ledger/lmdb/file_system.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr char kLockName[] = "recourse.lock";
constexpr char kSealName[] = "recourse.sealed";
constexpr char kRestoredName[] = "recourse.restored";
constexpr char kMovedName[] = "recourse.moved";
constexpr std::size_t kSealBytesMax = 128;

using Done = std::expected<void, std::string>;

std::string FirstLine(int file) {
  char text[kSealBytesMax] = {};
  const ssize_t size = pread(file, text, sizeof text, 0);
  std::string line(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  return line.substr(0, line.find('\n'));
}

Done TakeLock(int file, const std::string& directory, const DirectoryRules& rules) {
  while (!TakeFileLock(file)) {
    if (errno != EAGAIN && errno != EACCES) {
      return std::unexpected(fmt::format("cannot lock {}: {}", directory, std::strerror(errno)));
    }
    const std::string holder = FirstLine(file);
    const std::string why =
        fmt::format("{} is in use by process {}: is another recourse running on this directory?",
                    directory, holder.empty() ? "unknown" : holder);
    if (!rules.try_again || !rules.try_again(why)) return std::unexpected(why);
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return std::unexpected(
        fmt::format("cannot write into {}: {}", directory, std::strerror(errno)));
  }
  return {};
}

Done SyncDirectory(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const std::string reason = std::strerror(errno);
  if (file >= 0) close(file);
  if (!done) return std::unexpected(fmt::format("cannot sync {}: {}", path, reason));
  return {};
}

Done CheckOwner(const struct stat& status, const std::string& directory) {
  if (S_ISLNK(status.st_mode)) {
    return std::unexpected(
        fmt::format("{} is a symbolic link, which can be turned elsewhere while the ledger is "
                    "closed; name the directory itself for --data",
                    directory));
  }
  if (!S_ISDIR(status.st_mode)) {
    return std::unexpected(fmt::format("{} is not a directory; name one for --data", directory));
  }
  if (status.st_uid != geteuid()) {
    // What lies in it cannot be seen by everybody: a new ledger in it would remember nothing.
    const bool is_empty = access((directory + "/data.mdb").c_str(), F_OK) != 0 && errno == ENOENT &&
                          access((directory + "/new").c_str(), F_OK) != 0 && errno == ENOENT;
    if (!is_empty) {
      return std::unexpected(fmt::format(
          "{} is, or may be, the ledger of uid {}, and this process runs as uid {}; run it as that "
          "user, or stop whatever uses it and `chown -R {} {}`",
          directory, status.st_uid, geteuid(), geteuid(), directory));
    }
    return std::unexpected(fmt::format(
        "{} belongs to uid {} and this process runs as uid {}; name a directory inside it, such as "
        "{}/ledger, which is then created with the right owner",
        directory, status.st_uid, geteuid(), directory));
  }
  if ((status.st_mode & 022U) != 0) {
    return std::unexpected(
        fmt::format("{} has mode {:04o}, so others may replace the ledger; chmod it to 0700",
                    directory, status.st_mode & 07777U));
  }
  return {};
}

Done CheckFileSystem(const std::string& directory, bool unsafe_fs) {
  struct statfs status = {};
  if (statfs(directory.c_str(), &status) != 0) {
    return std::unexpected(fmt::format("cannot read {}: {}", directory, std::strerror(errno)));
  }
  const auto magic = static_cast<std::uint64_t>(status.f_type) & 0xffffffffU;
  const FileSystemFacts facts = JudgeFileSystem(magic);
  const std::string name =
      facts.name.empty() ? fmt::format("type {:#x}", magic) : std::string(facts.name);
  if (facts.fit == FileSystemFit::kKeeps) return {};
  if (facts.fit == FileSystemFit::kRefused && !unsafe_fs) {
    return std::unexpected(fmt::format(
        "{} lies on a file system ({}) that cannot hold a ledger: {}. Mount a volume there (ext4, "
        "xfs or btrfs), or start with --unsafe-fs when nothing may depend on what is remembered",
        directory, name, facts.reason));
  }
  Log(LogLevel::kWarn, "the ledger lies on a file system that may forget it",
      {{"directory", directory}, {"file_system", name}, {"why", facts.reason}});
  return {};
}

}  // namespace

std::expected<std::unique_ptr<LedgerDirectory>, std::string> LedgerDirectory::Lock(
    const std::string& path, const DirectoryRules& rules) {
  // A slash at the end would make lstat follow a symbolic link.
  const std::string directory = path.substr(0, path.find_last_not_of('/') + 1);
  struct stat status = {};
  bool is_created = false;
  if (rules.create) {
    is_created = mkdir(directory.c_str(), 0700) == 0;
    if (!is_created && errno != EEXIST) {
      return std::unexpected(fmt::format("cannot create {}: {}", directory, std::strerror(errno)));
    }
  }
  if (lstat(directory.c_str(), &status) != 0) {
    return std::unexpected(fmt::format("cannot read {}: {}", directory, std::strerror(errno)));
  }
  if (Done good = CheckOwner(status, directory); !good) return std::unexpected(good.error());
  if (Done good = CheckFileSystem(directory, rules.unsafe_fs); !good) {
    if (is_created) rmdir(directory.c_str());
    return std::unexpected(good.error());
  }
  const std::string name = directory + "/" + kLockName;
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    return std::unexpected(fmt::format(
        "cannot open {}: {}; the ledger's directory must be writable", name, std::strerror(errno)));
  }
  if (Done locked = TakeLock(file, directory, rules); !locked) {
    close(file);
    return std::unexpected(locked.error());
  }
  return std::unique_ptr<LedgerDirectory>(new LedgerDirectory(directory, file));
}

LedgerDirectory::~LedgerDirectory() { close(lock_file_); }

bool LedgerDirectory::Has(const std::string& name) const {
  struct stat status = {};
  return lstat(PathOf(name).c_str(), &status) == 0;
}

bool LedgerDirectory::is_sealed() const { return Has(kSealName); }

std::string LedgerDirectory::SealedIdentity() const { return Line(kSealName); }

std::string LedgerDirectory::Restored() const { return Line(kRestoredName); }

std::string LedgerDirectory::Line(const char* name) const {
  const int file = open(PathOf(name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return {};
  std::string line = FirstLine(file);
  close(file);
  return line;
}

Done LedgerDirectory::Sync() const { return SyncDirectory(path_); }

Done LedgerDirectory::Seal(const std::string& identity) {
  if (Done synced = Sync(); !synced) return synced;
  if (Done written = Write(kSealName, identity); !written) return written;
  // The directory's own name, when it was created just now.
  const auto parent = std::filesystem::absolute(path_).lexically_normal().parent_path();
  return SyncDirectory(parent.string());
}

Done LedgerDirectory::MarkRestored(const std::string& text) { return Write(kRestoredName, text); }

std::string LedgerDirectory::MovedTo() const { return Line(kMovedName); }

Done LedgerDirectory::MarkMoved(const std::string& identity) { return Write(kMovedName, identity); }

Done LedgerDirectory::AcceptRestoredBackup() {
  if (unlink(PathOf(kRestoredName).c_str()) != 0 && errno != ENOENT) {
    return std::unexpected(
        fmt::format("cannot remove {}: {}", PathOf(kRestoredName), std::strerror(errno)));
  }
  return Sync();
}

Done LedgerDirectory::Write(const char* file_name, const std::string& line) {
  const std::string name = PathOf(file_name);
  const std::string temporary = name + ".new";
  const std::string text = line + "\n";
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    return std::unexpected(fmt::format("cannot create {}: {}", temporary, std::strerror(errno)));
  }
  const bool done =
      pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      fsync(file) == 0;
  const std::string reason = std::strerror(errno);
  close(file);
  if (!done) return std::unexpected(fmt::format("cannot write {}: {}", temporary, reason));
  if (rename(temporary.c_str(), name.c_str()) != 0) {
    return std::unexpected(fmt::format("cannot write {}: {}", name, std::strerror(errno)));
  }
  return Sync();
}

std::uint64_t LedgerDirectory::FileBytes(const std::string& name) const {
  struct stat status = {};
  if (stat(PathOf(name).c_str(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

std::uint64_t LedgerDirectory::FreeBytes() const {
  struct statvfs status = {};
  if (statvfs(path_.c_str(), &status) != 0) return 0;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

Done LedgerDirectory::Rename(const std::string& from, const std::string& to) {
  if (rename(PathOf(from).c_str(), PathOf(to).c_str()) != 0) {
    return std::unexpected(fmt::format("cannot create {}: {}", PathOf(to), std::strerror(errno)));
  }
  return {};
}

Done LedgerDirectory::Remove(const std::string& name) {
  std::error_code error;
  std::filesystem::remove_all(PathOf(name), error);
  if (error) {
    return std::unexpected(fmt::format("cannot remove {}: {}", PathOf(name), error.message()));
  }
  return {};
}

Done LedgerDirectory::Renew(const std::string& name) {
  if (Done removed = Remove(name); !removed) return removed;
  std::error_code error;
  std::filesystem::create_directory(PathOf(name), error);
  if (error) {
    return std::unexpected(fmt::format("cannot create {}: {}", PathOf(name), error.message()));
  }
  return {};
}

}  // namespace recourse
