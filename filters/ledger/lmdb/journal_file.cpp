#include "filters/ledger/lmdb/journal_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "filters/ledger/lmdb/data_file.h"

namespace recourse {
namespace {

constexpr std::size_t kPieceBytes = 32 * 1024;

using Done = std::expected<void, std::string>;

std::unexpected<std::string> Failed(std::string_view what) {
  return std::unexpected(fmt::format("the journal cannot be {}: {}", what, std::strerror(errno)));
}

bool WriteAll(int file, std::uint64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(size));
    at += static_cast<std::uint64_t>(size);
  }
  return true;
}

bool ReadAll(int file, std::uint64_t at, char* to, std::size_t left) {
  while (left > 0) {
    const ssize_t size = pread(file, to, left, static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    to += size;
    left -= static_cast<std::size_t>(size);
    at += static_cast<std::uint64_t>(size);
  }
  return true;
}

}  // namespace

// Zeros, not a hole: a block that the file system has to find first would cost a commit of its own.
Done JournalFile::Make(const std::string& path, const JournalHead& head) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return Failed("created");
  const std::string zeros(kPieceBytes, '\0');
  const std::uint64_t end = kJournalRingAt + head.ring_bytes;
  bool done = WriteAll(file, 0, EncodeJournalHead(head));
  for (std::uint64_t at = kJournalBlockBytes; done && at < end; at += kPieceBytes) {
    const std::uint64_t size = std::min<std::uint64_t>(kPieceBytes, end - at);
    done = WriteAll(file, at, std::string_view(zeros).substr(0, size));
  }
  done = done && fdatasync(file) == 0;
  const int error = errno;
  close(file);
  if (done) return {};
  unlink(path.c_str());
  errno = error;
  return Failed("created");
}

RingBytes::RingBytes(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Without large pages, and one fault for each small one, it is only slower.
  madvise(memory, size, MADV_HUGEPAGE);
  madvise(memory, size, MADV_POPULATE_WRITE);
  memory_ = {static_cast<char*>(memory), size};
}

RingBytes::~RingBytes() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

std::expected<std::unique_ptr<JournalFile>, std::string> JournalFile::Open(const std::string& path,
                                                                           const Digest& ledger) {
  const int file = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_DSYNC);
  if (file < 0 && errno == ENOENT) return nullptr;
  if (file < 0 && errno == ELOOP) {
    return std::unexpected("journal is a symbolic link; put the file itself there");
  }
  if (file < 0) return Failed("opened");
  std::unique_ptr<JournalFile> opened(new JournalFile(path, file));
  const auto is_ours = opened->ReadHead(ledger);
  if (!is_ours) return std::unexpected(is_ours.error());
  if (!*is_ours) return nullptr;
  return opened;
}

std::expected<bool, std::string> JournalFile::ReadHead(const Digest& ledger) {
  struct stat status = {};
  if (fstat(file_, &status) != 0) return Failed("read");
  if (!S_ISREG(status.st_mode)) return std::unexpected("journal is not a regular file");
  if (status.st_uid != geteuid() || (status.st_mode & 022U) != 0) {
    return std::unexpected(fmt::format(
        "journal belongs to uid {} with mode {:04o}, so others may change it; chown it to uid {} "
        "and chmod it to 0600",
        status.st_uid, status.st_mode & 07777U, geteuid()));
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  std::string block(kJournalBlockBytes, '\0');
  if (bytes < kJournalRingAt) return false;
  if (!ReadAll(file_, 0, block.data(), block.size())) return Failed("read");
  const auto head = DecodeJournalHead(block);
  if (!head || head->ledger != ledger || head->ring_bytes != bytes - kJournalRingAt) {
    return false;
  }
  head_ = *head;
  if (!ReadAll(file_, kJournalBlockBytes, block.data(), block.size())) return Failed("read");
  stamp_ = DecodeJournalStamp(block, head_.id);
  return true;
}

JournalFile::~JournalFile() { close(file_); }

std::expected<RingBytes, std::string> JournalFile::ReadRing() const {
  RingBytes ring(head_.ring_bytes);
  if (!ReadAll(file_, kJournalRingAt, ring.data(), head_.ring_bytes)) return Failed("read");
  return ring;
}

void JournalFile::GoPastCache() {
  const int flags = fcntl(file_, F_GETFL);
  is_past_cache_ = flags >= 0 && fcntl(file_, F_SETFL, flags | O_DIRECT) == 0;
}

bool JournalFile::GoThroughCache() {
  const int flags = fcntl(file_, F_GETFL);
  if (flags < 0 || fcntl(file_, F_SETFL, flags & ~O_DIRECT) != 0) return false;
  is_past_cache_ = false;
  return true;
}

bool JournalFile::Put(std::uint64_t at, const BlockBytes& bytes) {
  if (WriteAll(file_, at, bytes.view())) return true;
  // A file system may promise it and then refuse it, or a part that is left after a short write.
  return is_past_cache_ && errno == EINVAL && GoThroughCache() && WriteAll(file_, at, bytes.view());
}

Done JournalFile::Stamp(const JournalStamp& stamp) {
  const std::string text = EncodeJournalStamp(head_.id, stamp);
  BlockBytes block(text.size());
  text.copy(block.data(), text.size());
  if (!Put(kJournalBlockBytes, block)) return Failed("written");
  stamp_ = stamp;
  return {};
}

Done JournalFile::Write(std::uint64_t at, const BlockBytes& bytes) {
  if (!Put(kJournalRingAt + at, bytes)) return Failed("written");
  return {};
}

bool JournalFile::Lock() const { return TakeFileLock(file_); }

bool JournalFile::is_in_place() const { return LeadsTo(path_, device_, inode_); }

}  // namespace recourse
