// Stands between a process and its storage: linked into a test, or preloaded into the real binary.
// Writes down what reaches the files below one directory (shim_log.h), and lets calls on the
// ledger's data.mdb fail.
//
// SHIM_ROOT=DIR   the directory; SHIM_LOG=FILE  where to record, if at all
// SHIM_FAULT=CALL:N:WHAT[:sticky]  the Nth CALL on a file of the ledger, and with `sticky` all
// after it.
//   CALL  of data.mdb: fdatasync | pwrite (pages) | dpwrite (the meta page, through O_DSYNC)
//         of journal: journal (a record);  of either: write
//   WHAT  an errno name (EIO, ENOSPC, EROFS) | short (half is written) | late (done, then EIO) |
//         kill (the process, before the call) | a number: milliseconds to wait first
// SHIM_ARM=FILE   calls count once this file exists; SHIM_HITS=FILE  gets a line for each fault
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/power_loss/shim_log.h"

namespace {

using recourse::ShimKind;
using recourse::ShimRecord;

struct OpenFile {
  bool is_watched = false, is_dsync = false, is_data = false, is_directory = false;
  bool is_journal = false;
  std::uint64_t inode = 0;
  std::string path;  // below the root
};

struct Fault {
  std::string call, what, arm, hits;
  int nth = 0;
  bool is_sticky = false;
  std::atomic<int> seen{0};
};

struct State {
  std::mutex mutex;
  std::string root;
  int log = -1;
  std::array<OpenFile, 4096> files;
  Fault fault;

  State() {
    const char* const text = getenv("SHIM_ROOT");
    if (text == nullptr) return;
    root = text;
    if (const char* path = getenv("SHIM_LOG")) Open(path);
    ReadFault();
  }
  void Open(const char* path) {
    log = static_cast<int>(
        syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  void ReadFault() {
    const auto variable = [](const char* name) {
      const char* const value = getenv(name);
      return std::string(value == nullptr ? "" : value);
    };
    std::string text = variable("SHIM_FAULT");
    if (text.empty()) return;
    const auto first = text.find(':'), second = text.find(':', first + 1);
    fault.call = text.substr(0, first);
    fault.nth = atoi(text.c_str() + first + 1);
    fault.what = text.substr(second + 1);
    const auto sticky = fault.what.find(":sticky");
    fault.is_sticky = sticky != std::string::npos;
    if (fault.is_sticky) fault.what.resize(sticky);
    fault.arm = variable("SHIM_ARM");
    fault.hits = variable("SHIM_HITS");
  }
};

State& The() {
  static State* const state = new State;  // used by calls at exit too
  return *state;
}

template <class Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Path below the root; empty when it is elsewhere. Locks are mapped or mean nothing after a crash.
std::string Below(const char* path) {
  const State& state = The();
  const std::string_view text = path == nullptr ? "" : path;
  if (state.root.empty() || text.size() <= state.root.size() + 1 || !text.starts_with(state.root) ||
      text[state.root.size()] != '/' || text.ends_with("lock.mdb") || text.ends_with(".lock")) {
    return {};
  }
  return std::string(text.substr(state.root.size() + 1));
}

void Append(ShimRecord record, std::string_view path = {}, std::string_view second = {},
            std::string_view data = {}) {
  State& state = The();
  if (state.log < 0) return;
  record.path_bytes = static_cast<std::uint16_t>(path.size());
  record.second_path_bytes = static_cast<std::uint16_t>(second.size());
  record.data_bytes = data.size();
  std::string bytes(reinterpret_cast<const char*>(&record), sizeof record);
  bytes.append(path).append(second).append(data);
  const std::lock_guard lock(state.mutex);
  if (syscall(SYS_write, state.log, bytes.data(), bytes.size()) !=
      static_cast<long>(bytes.size())) {
    abort();
  }
}

OpenFile* Watched(int fd) {
  State& state = The();
  if (fd < 0 || static_cast<std::size_t>(fd) >= state.files.size()) return nullptr;
  OpenFile& file = state.files[static_cast<std::size_t>(fd)];
  return file.is_watched ? &file : nullptr;
}

int Opened(int fd, const char* path, int flags, bool existed) {
  State& state = The();
  if (fd < 0 || static_cast<std::size_t>(fd) >= state.files.size()) return fd;
  OpenFile& file = state.files[static_cast<std::size_t>(fd)];
  file = {};
  const std::string below = Below(path);
  const bool is_root = path != nullptr && !state.root.empty() && state.root == path;
  if (below.empty() && !is_root) return fd;
  struct stat status = {};
  if (fstat(fd, &status) != 0) return fd;
  file = {.is_watched = true,
          .is_dsync = (flags & O_DSYNC) != 0,
          .is_data = below == "data.mdb",
          .is_directory = S_ISDIR(status.st_mode),
          .is_journal = below == "journal",
          .inode = status.st_ino,
          .path = below};
  const bool is_new = (flags & O_CREAT) != 0 && (!existed || (flags & O_TRUNC) != 0);
  if (is_new && !file.is_directory) Append({.kind = ShimKind::kCreate, .inode = file.inode}, below);
  return fd;
}

bool Exists(const char* path) {
  struct stat status = {};
  return lstat(path, &status) == 0;
}

// What this call has to do; empty: nothing special.
std::string FaultOf(const char* call, const OpenFile& file) {
  Fault& fault = The().fault;
  const bool is_hit =
      fault.call == call || (fault.call == "write" && std::string_view(call) != "fdatasync");
  if (!(file.is_data || file.is_journal) || !is_hit) return {};
  if (!fault.arm.empty() && !Exists(fault.arm.c_str())) return {};
  const int nth = ++fault.seen;
  if (nth < fault.nth || (nth > fault.nth && !fault.is_sticky)) return {};
  if (!fault.hits.empty()) {
    const long fd = syscall(SYS_openat, AT_FDCWD, fault.hits.c_str(),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)syscall(SYS_write, fd, "hit\n", 4);
    (void)syscall(SYS_close, fd);
  }
  if (fault.what == "kill") (void)syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  if (const int delay = atoi(fault.what.c_str()); delay > 0) {
    (void)poll(nullptr, 0, delay);
    return {};
  }
  return fault.what;
}

int NumberOf(const std::string& name) {
  if (name == "EROFS") return EROFS;
  return name == "ENOSPC" ? ENOSPC : EIO;
}

template <class Write>
ssize_t Put(int fd, std::uint64_t offset, std::string_view data, Write write) {
  const OpenFile* const file = Watched(fd);
  if (file == nullptr) return write(data);
  const char* const data_call = file->is_dsync ? "dpwrite" : "pwrite";
  const std::string fault = FaultOf(file->is_journal ? "journal" : data_call, *file);
  if (!fault.empty() && fault != "short" && fault != "late") {
    errno = NumberOf(fault);
    return -1;
  }
  if (fault == "short") data = data.substr(0, data.size() / 2);
  Append({.kind = ShimKind::kWrite,
          .is_dsync = file->is_dsync,
          .inode = file->inode,
          .offset = offset},
         {}, {}, data);
  const ssize_t size = write(data);
  if (size == static_cast<ssize_t>(data.size()) && file->is_dsync) {
    Append({.kind = ShimKind::kDsyncEnd, .inode = file->inode});
  }
  if (fault == "late") {
    errno = EIO;
    return -1;
  }
  return size;
}

std::string Flat(const struct iovec* parts, int count) {
  std::string data;
  for (int i = 0; i < count; ++i)
    data.append(static_cast<char*>(parts[i].iov_base), parts[i].iov_len);
  return data;
}

int Sync(const char* name, int fd) {
  const auto real = Real<int(int)>(name);
  const OpenFile* const file = Watched(fd);
  if (file == nullptr) return real(fd);
  const std::string fault = FaultOf(name, *file);
  if (!fault.empty() && fault != "late") {
    errno = NumberOf(fault);
    return -1;
  }
  Append({.kind = ShimKind::kSyncBegin, .inode = file->inode}, file->path);
  const int result = real(fd);
  if (result == 0) Append({.kind = ShimKind::kSyncEnd, .inode = file->inode}, file->path);
  if (fault == "late") {
    errno = EIO;
    return -1;
  }
  return result;
}

}  // namespace

extern "C" {

void shim_record(const char* root, const char* log) {
  State& state = The();
  if (state.log >= 0) syscall(SYS_close, state.log);
  state.log = -1;
  state.root = root == nullptr ? "" : root;
  if (log != nullptr) state.Open(log);
}

void shim_mark(unsigned long number) { Append({.kind = ShimKind::kMark, .offset = number}); }

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0U);
  va_end(more);
  const bool existed = Exists(path);
  return Opened(static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode)), path, flags,
                existed);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0U);
  va_end(more);
  return open(path, flags | O_LARGEFILE, mode);
}

int close(int fd) {
  if (OpenFile* const file = Watched(fd)) *file = {};
  return static_cast<int>(syscall(SYS_close, fd));
}

int closedir(DIR* directory) {
  if (OpenFile* const file = Watched(dirfd(directory))) *file = {};
  return Real<int(DIR*)>("closedir")(directory);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Put(fd, static_cast<std::uint64_t>(offset), {static_cast<const char*>(data), size},
             [&](std::string_view bytes) {
               return syscall(SYS_pwrite64, fd, bytes.data(), bytes.size(), offset);
             });
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return pwrite(fd, data, size, offset);
}

ssize_t write(int fd, const void* data, size_t size) {
  const auto at = Watched(fd) == nullptr ? 0 : lseek(fd, 0, SEEK_CUR);
  return Put(
      fd, static_cast<std::uint64_t>(at), {static_cast<const char*>(data), size},
      [&](std::string_view bytes) { return syscall(SYS_write, fd, bytes.data(), bytes.size()); });
}

ssize_t writev(int fd, const struct iovec* parts, int count) {
  if (Watched(fd) == nullptr) return syscall(SYS_writev, fd, parts, count);
  const std::string data = Flat(parts, count);
  return write(fd, data.data(), data.size());
}

ssize_t pwritev(int fd, const struct iovec* parts, int count, off_t offset) {
  if (Watched(fd) == nullptr) {
    return Real<ssize_t(int, const struct iovec*, int, off_t)>("pwritev")(fd, parts, count, offset);
  }
  const std::string data = Flat(parts, count);
  return pwrite(fd, data.data(), data.size(), offset);
}

ssize_t pwritev64(int fd, const struct iovec* parts, int count, off64_t offset) {
  return pwritev(fd, parts, count, offset);
}

int fdatasync(int fd) { return Sync("fdatasync", fd); }
int fsync(int fd) { return Sync("fsync", fd); }

int rename(const char* from, const char* to) noexcept {
  const std::string before = Below(from), after = Below(to);
  if (!before.empty()) Append({.kind = ShimKind::kRename}, before, after);
  return static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

int unlink(const char* path) noexcept {
  const std::string below = Below(path);
  if (!below.empty()) Append({.kind = ShimKind::kUnlink}, below);
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

// std::filesystem::remove_all walks by descriptor.
int openat(int at, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0U);
  va_end(more);
  if (at == AT_FDCWD) return open(path, flags, mode);
  const OpenFile* const parent = Watched(at);
  const std::string full = parent == nullptr ? ""
                                             : The().root + "/" + parent->path +
                                                   (parent->path.empty() ? "" : "/") + path;
  return Opened(static_cast<int>(syscall(SYS_openat, at, path, flags, mode)), full.c_str(), flags,
                true);
}

int unlinkat(int at, const char* path, int flags) noexcept {
  const OpenFile* const parent = at == AT_FDCWD ? nullptr : Watched(at);
  std::string below = at == AT_FDCWD ? Below(path) : "";
  if (parent != nullptr) below = parent->path + (parent->path.empty() ? "" : "/") + path;
  if (!below.empty()) Append({.kind = ShimKind::kUnlink}, below);
  return static_cast<int>(syscall(SYS_unlinkat, at, path, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  const std::string below = Below(path);
  if (!below.empty()) Append({.kind = ShimKind::kMakeDirectory}, below);
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

}  // extern "C"
