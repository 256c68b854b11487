#include "proxy/server/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "proxy/base/hash.h"

namespace recourse {
namespace {

constexpr std::size_t kSecretFileBytesMax = 4096;
constexpr std::size_t kInstallSecretBytes = 32;

std::unexpected<std::string> Failed(const std::string& what, const std::string& path) {
  return std::unexpected(what + " " + path + ": " + std::strerror(errno));
}

void SyncDirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int directory = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

// Writes and syncs a new file of mode 0600.
FileResult<void> CreateDurably(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Failed("cannot create", path);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  ::close(fd);
  if (!written) return Failed("cannot write", path);
  return {};
}

}  // namespace

FileResult<std::string> ReadSecretFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed("cannot open", path);
  std::string text(kSecretFileBytesMax + 1, '\0');
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
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

FileResult<void> WriteFileAtomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  ::unlink(temporary.c_str());
  if (auto created = CreateDurably(temporary, text); !created) return created;
  if (::rename(temporary.c_str(), path.c_str()) != 0) return Failed("cannot write", path);
  SyncDirectoryOf(path);
  return {};
}

}  // namespace recourse
