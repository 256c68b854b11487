// What stands in the journal file: its head, and one record per batch. Pure: bytes to values and
// back. The layout is documented in the README of the ledger.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/lmdb/journal_state.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// A record begins and ends at a multiple of it, so that no byte of a record that somebody relies on
// is ever written again, not even by a disk that rewrites whole blocks.
inline constexpr std::uint64_t kJournalBlockBytes = 4096;

// 250 ms of the most that one disk takes, and a bound on the rows that are kept in memory twice.
inline constexpr std::uint64_t kJournalRingBytesMin = 256 * 1024;
inline constexpr std::uint64_t kJournalRingBytesMax = 8 * 1024 * 1024;

struct JournalHead {
  Digest ledger{};  // the identity of the log that the file belongs to
  JournalId id{};
  std::uint64_t ring_bytes = 0;  // behind head and stamp; whole blocks
};
inline constexpr std::uint64_t kJournalRingAt = 2 * kJournalBlockBytes;

// One block.
std::string EncodeJournalHead(const JournalHead& head);
// Nothing when it is not sound.
std::optional<JournalHead> DecodeJournalHead(std::string_view block);

// The block behind the head: how far the newest generation of this file has come. It fits one
// sector, so it is never half written.
std::string EncodeJournalStamp(const JournalId& id, const JournalStamp& stamp);
// Generation 0 when it is not sound.
JournalStamp DecodeJournalStamp(std::string_view block, const JournalId& id);

// Memory for whole blocks, which begins where one may: a write past the page cache needs that.
class BlockBytes {
 public:
  BlockBytes() = default;
  // `size` is a multiple of kJournalBlockBytes. Its bytes are of no value yet.
  explicit BlockBytes(std::size_t size)
      : bytes_(static_cast<char*>(::operator new(size, kAlignment))), size_(size) {}

  char* data() { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  static constexpr std::align_val_t kAlignment{kJournalBlockBytes};
  struct Free {
    void operator()(char* bytes) const { ::operator delete(bytes, kAlignment); }
  };
  std::unique_ptr<char, Free> bytes_;
  std::size_t size_ = 0;
};

// A batch as it is written: whole blocks, and where its rows lie in them.
struct JournalRecord {
  std::uint64_t first_seq = 0;
  BlockBytes bytes;
  std::size_t rows_begin = 0;
  std::vector<std::size_t> ends;  // of every row, in `bytes`

  std::size_t rows() const { return ends.size(); }
  std::uint64_t last_seq() const { return first_seq + ends.size() - 1; }
  std::size_t rows_bytes() const { return ends.back() - rows_begin; }
  std::string_view row(std::size_t i) const {
    const std::size_t start = i == 0 ? rows_begin : ends[i - 1];
    return bytes.view().substr(start, ends[i] - start);
  }
};

// How many bytes the record of a batch takes.
std::uint64_t JournalBytesOf(const RowBatch& batch);
// `batch` has rows, and neither a base nor ages, which are not journaled. `generation` tells the
// records of one process from those of the next.
JournalRecord EncodeJournalRecord(const JournalId& id, std::uint64_t generation,
                                  const RowBatch& batch);

// A record that was found. The views are into the bytes it was read from.
struct FoundRecord {
  std::uint64_t generation = 0;
  std::uint64_t first_seq = 0;
  std::uint64_t bytes = 0;  // whole blocks
  std::vector<std::string_view> rows;
};

enum class JournalBlock : std::uint8_t {
  kOther,   // no record of this file begins here
  kTorn,    // one does, and is not whole
  kRecord,  // one does
};

// Looks at what begins with the first byte of `ring`; `found` is filled in but for its rows when
// the record is torn.
JournalBlock DecodeJournalRecord(std::string_view ring, const JournalId& id, FoundRecord& found);

}  // namespace recourse
