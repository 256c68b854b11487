#include "proxy/config/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

using limits::kSecretFileBytesMax;
constexpr std::size_t kInstallSecretBytes = 32;

std::unexpected<std::string> Failed(const std::string& what, const std::string& path) {
  return std::unexpected(what + " " + path + ": " + std::strerror(errno));
}

// Writes and syncs a new file of mode 0600 or 0644.
FileResult<void> CreateDurably(const std::string& path, const std::string& text, Readers readers) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    const std::string advice = errno == ENOENT ? "; make its directory first" : "";
    return std::unexpected(Failed("cannot create", path).error() + advice);
  }
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       (readers == Readers::kOwner || ::fchmod(fd, 0644) == 0) && ::fsync(fd) == 0;
  ::close(fd);
  if (!written) return Failed("cannot write", path);
  return {};
}

std::string TemporaryFor(const std::string& path) {
  return path + "." + std::to_string(::getpid()) + ".tmp";
}

class OpenFile {
 public:
  // O_NONBLOCK: a pipe in the place of the file must not hold us.
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// nullptr: private enough.
const char* WhyExposed(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "is not a regular file";
  if ((info.st_mode & S_IRWXO) != 0) return "is open to every user; chmod 600 it";
  if ((info.st_mode & (S_IWGRP | S_IXGRP)) != 0) return "may be written by its group; chmod 600 it";
  const bool is_mounted = info.st_uid != ::geteuid() || (info.st_mode & S_IWUSR) == 0;
  if ((info.st_mode & S_IRGRP) != 0 && !is_mounted) {
    return "may be read by its group; chmod 600 it (or 440, as a mounted Secret is)";
  }
  return nullptr;
}

}  // namespace

void SyncDirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int directory = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

bool IsWorldReadable(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && (info.st_mode & S_IROTH) != 0;
}

FileResult<std::string> ReadPrivateFile(const std::string& path, std::size_t bytes_max) {
  const OpenFile file(path);
  if (file.fd() < 0) return Failed("cannot open", path);
  struct stat info = {};
  if (::fstat(file.fd(), &info) != 0) return Failed("cannot read", path);
  if (const char* const why = WhyExposed(info)) return std::unexpected(path + " " + why);
  if (static_cast<std::size_t>(info.st_size) > bytes_max) {
    return std::unexpected(path + " is larger than " + std::to_string(bytes_max) + " bytes");
  }
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  const ssize_t size = ::read(file.fd(), text.data(), text.size());
  if (size < 0) return Failed("cannot read", path);
  text.resize(static_cast<std::size_t>(size));
  return text;
}

FileResult<std::string> ReadInputFile(const std::string& path, std::size_t bytes_max) {
  const OpenFile file(path);
  struct stat info = {};
  if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0) return Failed("cannot open", path);
  if (!S_ISREG(info.st_mode)) return std::unexpected(path + " is not a regular file");
  std::string text;
  char buffer[64 * 1024];
  for (ssize_t got = 1; got > 0;) {
    got = ::read(file.fd(), buffer, sizeof buffer);
    if (got < 0) return Failed("cannot read", path);
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > bytes_max) {
      return std::unexpected(path + " is larger than " + std::to_string(bytes_max >> 20) + " MiB");
    }
  }
  return text;
}

FileResult<std::string> ReadSecretFile(const std::string& path) {
  const OpenFile file(path);
  if (file.fd() < 0) return Failed("cannot open", path);
  std::string text(kSecretFileBytesMax + 1, '\0');
  const ssize_t size = ::read(file.fd(), text.data(), text.size());
  if (size < 0) return Failed("cannot read", path);
  text.resize(static_cast<std::size_t>(size));
  if (text.size() > kSecretFileBytesMax) return std::unexpected(path + " is larger than 4 KiB");
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.empty()) return std::unexpected(path + " is empty; put the token in its first line");
  return text;
}

FileResult<std::string> LoadOrCreateInstallSecret(const std::string& directory,
                                                  bool ledger_has_rows, Random& random) {
  const std::string path = directory + "/install.secret";
  if (::access(path.c_str(), F_OK) != 0) {
    if (ledger_has_rows) {
      return std::unexpected(path +
                             " is missing but the ledger beside it is not empty; restore it "
                             "from the same backup as the ledger");
    }
    std::string bytes(kInstallSecretBytes, '\0');
    random.Fill({reinterpret_cast<unsigned char*>(bytes.data()), bytes.size()});
    const auto created = WriteFileAtomically(path, ToHex(bytes) + "\n");
    if (!created) return std::unexpected(created.error());
  }
  auto secret = ReadSecretFile(path);
  if (secret && secret->size() != 2 * kInstallSecretBytes) {
    return std::unexpected(path + " is damaged; restore it from a backup");
  }
  return secret;
}

FileResult<std::string> ReadInstallSecret(const std::string& path) {
  auto text = ReadPrivateFile(path, kSecretFileBytesMax);
  if (!text) return text;
  text->resize(std::min(text->find_first_of("\r\n"), text->size()));
  const bool is_hex = std::ranges::all_of(
      *text, [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
  if (!is_hex || text->size() != 2 * kInstallSecretBytes) {
    return std::unexpected(
        path +
        " does not begin with 64 hex digits in lower case; `openssl rand -hex 32` makes "
        "some, and the install.secret of a ledger that is there holds its own");
  }
  return text;
}

FileResult<void> WriteFileAtomically(const std::string& path, const std::string& text,
                                     Readers readers) {
  const std::string temporary = TemporaryFor(path);
  ::unlink(temporary.c_str());
  if (auto created = CreateDurably(temporary, text, readers); !created) return created;
  if (::rename(temporary.c_str(), path.c_str()) != 0) return Failed("cannot write", path);
  SyncDirectoryOf(path);
  return {};
}

FileResult<bool> CreateFileOnce(const std::string& path, const std::string& text) {
  const std::string temporary = TemporaryFor(path);
  ::unlink(temporary.c_str());
  if (auto created = CreateDurably(temporary, text, Readers::kOwner); !created) {
    return std::unexpected(created.error());
  }
  // A link, unlike a rename, replaces nothing.
  const bool is_linked = ::link(temporary.c_str(), path.c_str()) == 0;
  const int error = errno;
  ::unlink(temporary.c_str());
  errno = error;
  if (!is_linked && error != EEXIST) return Failed("cannot write", path);
  SyncDirectoryOf(path);
  return is_linked;
}

}  // namespace recourse
