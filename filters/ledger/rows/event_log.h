// What carries durability, behind one narrow interface: appended rows, numbered without gaps, whose
// oldest ones may leave.
#pragma once

#include <algorithm>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger_copy.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/error.h"
#include "proxy/base/log/log.h"

namespace recourse {

// A row that should be there is not, or says nothing. Its operation may well have been executed.
// The log names the row (0: not known), as an Error cannot.
inline Error Unreadable(std::uint64_t row = 0) {
  Log(LogLevel::kError, "a row of the ledger is damaged or missing; restore it from a backup",
      {{"row", PrintRowId(row)}});
  return Error(ErrorCode::kLedgerUnavailable, "a row of the ledger cannot be read",
               Delivery::kUncertain);
}

// Where the log begins: what was before has been removed by retention.
struct LogBase {
  std::uint64_t first_seq = 1;
  Digest prev_hash{};  // hash of the row before it; zeros when there never was one
};

// Rows of one commit, end to end in one buffer that is reused from batch to batch.
struct RowBatch {
  std::uint64_t first_seq = 0;
  std::string bytes;
  std::vector<std::size_t> ends;
  bool has_dispatching = false;  // crash point k04
  bool has_outcome = false;      // crash point k11
  std::optional<LogBase> base;   // rows before it leave in the same commit (crash point k23)
  std::string ages;              // RowAges::Encode; empty: as it was

  std::size_t size() const { return ends.size(); }
  bool empty() const { return ends.empty() && !base && ages.empty(); }
  std::string_view row(std::size_t i) const {
    const std::size_t start = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(start, ends[i] - start);
  }
  void Clear() {
    bytes.clear();
    ends.clear();
    has_dispatching = false;
    has_outcome = false;
    base.reset();
    ages.clear();
  }
};

// Bytes of pages that a commit writes besides its rows: the way down to a row, and the free list.
inline constexpr std::uint64_t kPagesOfCommit = 64 * 1024;

struct AppendError {
  std::string reason;    // for people
  bool is_full = false;  // there was no room, and nothing at all was written
};

struct LogSpace {
  std::uint64_t free_bytes = 0;  // can be appended for sure
  int used_percent = 0;          // of what limit and disk allow
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
  // Makes the whole batch durable, or nothing of it as far as this process will ever say. One
  // thread at a time. At least one row is left.
  // After a failure the caller must not append again, unless nothing was written.
  virtual std::expected<void, AppendError> Append(const RowBatch& batch) = 0;
  virtual std::unique_ptr<Reader> NewReader() = 0;  // thread-safe
  virtual std::uint64_t last_seq() = 0;             // 0: never written. Thread-safe
  virtual LogBase base() = 0;                       // thread-safe
  virtual std::string LoadAges() = 0;               // as kept last; empty: none
  virtual LogSizes sizes() = 0;                     // thread-safe
  // Takes more from the disk first, when what can be appended for sure is less than `need`. The
  // appending thread only. Costs microseconds, milliseconds when space is short.
  virtual LogSpace Space(std::uint64_t need) = 0;
  // Begins to copy all rows as they are now. Thread-safe. Fails with a line for people.
  virtual std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() {
    return std::unexpected("this ledger lives in memory and cannot be copied");
  }
  // Whether it cannot be written any more, also when nobody has tried since. Thread-safe.
  virtual bool has_failed() { return false; }
  // What holds the log did not answer all that it was asked since this object was made: it may have
  // rows that were not found, and an end that is further on. Thread-safe.
  virtual std::optional<Error> away() const { return std::nullopt; }
  virtual Digest identity() const { return {}; }  // tells this log from any other
  // Where Scan finds the row of that id; thread-safe. In a log of one stream it is the id itself.
  virtual std::uint64_t PlaceOf(std::uint64_t id) { return id; }
  struct Placed {
    std::uint64_t id = 0, place = 0;
  };
  // The last row but so many, of those up to that place; zeros: there are no more than these.
  // Thread-safe.
  virtual Placed Before(std::uint64_t place, std::size_t rows) {
    const std::uint64_t last = std::min(place, last_seq());
    const std::uint64_t id = last - std::min<std::uint64_t>(last, rows);
    return id < base().first_seq ? Placed() : Placed{id, id};
  }
};

// Why a row that should be there could not be read.
inline Error WhyUnread(const EventLog& log, std::uint64_t row) {
  const auto away = log.away();
  return away ? *away : Unreadable(row);
}

}  // namespace recourse
