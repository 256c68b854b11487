// One process's stream in the database: reads for its verbs, and commits batches of their plans.
// One thread at a time; blocks.
//
// A batch is sent whole, with what its plans have read: it happens if all of that is still so. If
// not, it becomes a transaction of two rounds. The first fences it by its stream's row and locks
// what the plans have read; a plan that finds something else there has lost, and its row numbers
// say nothing. The second writes, and commits.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/postgres/batch_sql.h"
#include "filters/ledger/postgres/changes.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/facts.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {

struct PgStoreOptions {
  PgOptions connection{};
  std::string group{};  // pods that may do each other's work
  std::string pod{};    // for people
  std::string version{};
  std::string install_id{};
  // By whose clock rows are dated; a test moves its own.
  enum class Time : std::uint8_t { kDatabase, kProcess };
  Time time = Time::kDatabase;
  // Unset, or told of each stream that is begun in that ledger. Gives that of a process which has
  // ended for certain, and whose place this one takes; 0: there is none.
  std::function<std::uint64_t(const Digest& ledger, std::uint64_t stream)> begun{};
};

// A plan on its way into the log.
struct PlannedRows {
  Plan* plan = nullptr;
  Changes changes;
  const Versions* read = nullptr;
  std::uint64_t first = 0;  // id of its first row
  bool begins = false;      // a call, which may be held back
  bool has_lost = false;
  std::optional<Error> failed{};  // it cannot be written at all
};
// A row about nothing but the ledger itself; encoded under the head it is given.
using NoteRow = std::function<void(std::string& out, const RowHead& head)>;

enum class BatchEnd : std::uint8_t {
  kDone,
  kAgain,    // it met another one: nothing was written, decide anew
  kAway,     // the database could not be asked, or refuses it: nothing was written
  kInDoubt,  // it may have been written: Resolve tells
  kFenced,   // this stream may not write any more, and nothing was written
};

class PgStore {
 public:
  // `local` outlives it; `keys` may be null.
  PgStore(PgStoreOptions options, std::shared_ptr<const LedgerKeys> keys, LocalFacts& local);

  // Connects where it is not, and begins a stream where there is none.
  std::expected<void, Unopened> Connect();
  // It was fenced; the next Connect begins another one.
  void LeaveStream();
  bool is_connected() const { return connection_ != nullptr && !connection_->is_lost(); }
  std::expected<Fetched, PgFailure> Read(const Wishes& wishes);

  std::uint64_t next_row() const { return head_ + 1; }  // packed
  std::uint64_t head() const { return head_; }
  const Digest& chain() const { return chain_; }
  std::uint64_t stream() const { return stream_; }
  const Digest& identity() const { return identity_; }
  const std::string& group() const { return options_.group; }
  PgConnection& connection() { return *connection_; }

  // The rows of `plans` in their order, from next_row on, and behind them the notes.
  BatchEnd Commit(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes);
  // After kInDoubt, once connected again: whether the batch was written. nullopt: not known yet.
  std::optional<BatchEnd> Resolve();
  // Operations that the stream sends.
  const std::map<std::uint64_t, std::uint64_t>& open() const { return open_; }
  // Rows of the last batch that was written, by id.
  const std::map<std::uint64_t, std::string>& written() const { return written_; }
  std::uint64_t PlaceOf(std::uint64_t written_row) const;

 private:
  struct Built {
    std::uint64_t head = 0;
    std::uint64_t place = 0;  // of the row before its first
    Digest chain{};
    std::map<std::uint64_t, std::uint64_t> open;  // by operation, the row that says so
    PgOwnWork::Changed work;
    std::size_t left = 0;  // if this process died: what it sends, and what else is its to do
    std::map<std::uint64_t, std::string> rows;
  };

  std::expected<void, Unopened> BeginStream();
  std::expected<void, BatchEnd> Lock(std::vector<PlannedRows>& plans, std::uint64_t& place);
  void Encode(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes, Built& built);
  void EncodePlan(PlannedRows& planned, Built& built);
  static void Track(const PlannedRows& planned, Built& built);
  static std::uint64_t LowOf(const Built& built);  // number of the oldest row that says so
  std::optional<BatchEnd> CommitAtOnce(std::vector<PlannedRows>& plans,
                                       const std::vector<NoteRow>& notes);
  BatchEnd CommitLocked(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes);
  BatchEnd Doubt(const PgFailure& failure, Built built);
  void QueueWrites(const std::vector<PlannedRows>& plans, const Built& built);
  BatchEnd Rollback(const PgFailure& failure);
  void Adopt(Built built);
  PgStreamEnd Own() const;

  const PgStoreOptions options_;
  LocalFacts& local_;
  std::optional<RowEncryptor> sealer_;
  std::unique_ptr<PgConnection> connection_;
  std::uint64_t stream_ = 0;
  std::uint64_t left_ = 0;  // the stream before this one; 0: there was none
  std::uint64_t head_ = 0;
  std::uint64_t beat_ = 0;
  Digest chain_{};
  Digest identity_{};
  std::map<std::uint64_t, std::uint64_t> open_;
  std::map<std::uint64_t, std::string> written_;
  std::uint64_t written_place_ = 0;  // of the row before them
  std::optional<Built> in_doubt_;
};

}  // namespace recourse
