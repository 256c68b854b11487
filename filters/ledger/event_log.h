// What carries durability, behind one narrow interface: appended rows, numbered from 1 without
// gaps. A redo journal can take LMDB's place here without touching anything above.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/error.h"

namespace recourse {

// A row that should be there is not, or says nothing. Its operation may well have been executed.
inline Error Unreadable() {
  return Error(ErrorCode::kLedgerUnavailable, "a row of the ledger cannot be read",
               Delivery::kUncertain);
}

// Rows of one commit, end to end in one buffer that is reused from batch to batch.
struct RowBatch {
  std::uint64_t first_seq = 0;
  std::string bytes;
  std::vector<std::size_t> ends;
  bool has_dispatching = false;  // crash point k04
  bool has_outcome = false;      // crash point k11

  std::size_t size() const { return ends.size(); }
  bool empty() const { return ends.empty(); }
  std::string_view row(std::size_t i) const {
    const std::size_t start = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(start, ends[i] - start);
  }
  void Clear() {
    bytes.clear();
    ends.clear();
    has_dispatching = false;
    has_outcome = false;
  }
};

struct LogSizes {
  std::uint64_t used_bytes = 0;
  std::uint64_t map_bytes = 0;
};

class EventLog {
 public:
  // Reads committed rows. One thread at a time per reader; any number of readers beside a writer.
  // A reader does not outlive its log.
  class Reader {
   public:
    virtual ~Reader() = default;
    // Copies row `seq` into `row`. False when it is not there or cannot be read.
    virtual bool Read(std::uint64_t seq, std::string& row) = 0;
    // Visits rows with number >= `from` in order, at most `rows_max`, until `visit` returns false.
    // The bytes are valid during the visit only; a visit must be short and must not block.
    // False when the rows cannot be read.
    using Visit = std::function<bool(std::uint64_t seq, std::string_view row)>;
    virtual bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) = 0;
  };

  virtual ~EventLog() = default;
  // Makes all rows durable, or none as far as this process will ever say. One thread at a time.
  // Fails with a line for people; the caller must not append again afterwards.
  virtual std::expected<void, std::string> Append(const RowBatch& batch) = 0;
  virtual std::unique_ptr<Reader> NewReader() = 0;  // thread-safe
  virtual std::uint64_t last_seq() = 0;             // 0: empty. Thread-safe
  virtual LogSizes sizes() = 0;                     // thread-safe
};

}  // namespace recourse
