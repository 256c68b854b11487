// The journal as a file: ours alone, of one size from the beginning, so that a write into it
// changes nothing but its own blocks.
#pragma once

#include <sys/types.h>

#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "filters/ledger/lmdb/journal_record.h"

namespace recourse {

// What a ring holds, in memory of large pages where the system has them: at each start it is filled
// once, and thousands of small pages cost more than reading the file does.
class RingBytes {
 public:
  // `size` zeros. Throws std::bad_alloc.
  explicit RingBytes(std::size_t size);
  ~RingBytes();
  RingBytes(RingBytes&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  RingBytes& operator=(RingBytes&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }

  char* data() { return memory_.data(); }
  std::string_view view() const { return {memory_.data(), memory_.size()}; }

 private:
  std::span<char> memory_;
};

class JournalFile {
 public:
  // Makes a whole file at `path`, which must not exist yet, with an empty ring; durable but for its
  // name. Fails with a line for people.
  static std::expected<void, std::string> Make(const std::string& path, const JournalHead& head);
  // Null when there is no file, or none that belongs to the ledger of this identity. Fails with a
  // line for people when it cannot be read, is no regular file, or others may write it.
  static std::expected<std::unique_ptr<JournalFile>, std::string> Open(const std::string& path,
                                                                       const Digest& ledger);
  ~JournalFile();
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  // Takes the file's own lock for the life of the object. False when another process has it.
  bool Lock() const;
  const JournalHead& head() const { return head_; }
  // As it was found, or set last; generation 0 when that cannot be told.
  JournalStamp stamp() const { return stamp_; }
  // Remembers it durably. Fails with a line for people.
  std::expected<void, std::string> Stamp(const JournalStamp& stamp);
  // All of the ring. Fails with a line for people.
  std::expected<RingBytes, std::string> ReadRing() const;
  // From now on nothing is read, and writes go past the page cache where the file system can do
  // that: to copy into it what nobody reads there costs a fifth of the CPU of a write.
  void GoPastCache();
  // Durable when it returns. Fails with a line for people; then nobody knows what is on the disk.
  std::expected<void, std::string> Write(std::uint64_t at, const BlockBytes& bytes);
  // Whether the path still leads to this file. Thread-safe.
  bool is_in_place() const;

 private:
  JournalFile(std::string path, int file) : path_(std::move(path)), file_(file) {}
  std::expected<bool, std::string> ReadHead(const Digest& ledger);
  bool Put(std::uint64_t at, const BlockBytes& bytes);
  bool GoThroughCache();

  const std::string path_;
  const int file_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  JournalHead head_;
  JournalStamp stamp_;
  bool is_past_cache_ = false;
};

}  // namespace recourse
