#include "filters/ledger/open/stream_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include "filters/ledger/lmdb/data_file.h"
#include "filters/ledger/lmdb/file_system.h"

namespace recourse {
namespace {

constexpr std::size_t kStreamFileBytesMax = 128;

bool HasLocksOfThisMachine(const std::string& directory) {
  struct statfs facts = {};
  if (::statfs(directory.c_str(), &facts) != 0) return false;
  const auto magic = static_cast<std::uint64_t>(facts.f_type);
  return JudgeFileSystem(magic).fit != FileSystemFit::kRefused;
}

}  // namespace

std::shared_ptr<StreamFile> StreamFile::Hold(const std::string& directory, bool anywhere) {
  if (!anywhere && !HasLocksOfThisMachine(directory)) return nullptr;
  const std::string path = directory + "/recourse.stream";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return nullptr;
  if (TakeFileLock(file)) return std::shared_ptr<StreamFile>(new StreamFile(file));
  ::close(file);
  return nullptr;
}

StreamFile::~StreamFile() { ::close(file_); }

std::uint64_t StreamFile::Begin(const Digest& ledger, std::uint64_t stream) {
  const std::string name = ToHex(ledger);
  std::uint64_t before = 0;
  if (is_first_) {
    char bytes[kStreamFileBytesMax] = {};
    const ssize_t size = ::pread(file_, bytes, sizeof bytes, 0);
    std::string_view text(bytes, size > 0 ? static_cast<std::size_t>(size) : 0);
    if (text.starts_with(name + " ") && text.ends_with('\n')) {
      text.remove_prefix(name.size() + 1);
      (void)std::from_chars(text.data(), text.data() + text.size(), before);
    }
    is_first_ = false;
  }
  const std::string line = fmt::format("{} {}\n", name, stream);
  // Unwritten, the next process waits until this one is seen to be silent.
  if (::ftruncate(file_, 0) == 0) (void)!::pwrite(file_, line.data(), line.size(), 0);
  return before;
}

}  // namespace recourse
