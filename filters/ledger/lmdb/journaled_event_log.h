// A log whose batches become durable in a journal first, by one flush of a few blocks, and are
// moved into LMDB later, many at a time, by a thread of its own. Nobody above notices: what is in
// the journal alone is read from memory.
//
// In the journal: batches that only add rows. Whatever else a batch does, and whatever does not
// fit, waits until the journal is empty and goes into LMDB by itself, as it would without a
// journal.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "filters/ledger/lmdb/journal_file.h"
#include "filters/ledger/lmdb/journal_record.h"
#include "filters/ledger/lmdb/journal_ring.h"
#include "filters/ledger/lmdb/lmdb_event_log.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {

class JournaledEventLog final : public EventLog {
 public:
  // `log` has noted, durably, that the journal of this generation is open. `journal` null: there is
  // none, and every batch goes into `log` by itself.
  JournaledEventLog(std::unique_ptr<LmdbEventLog> log, std::unique_ptr<JournalFile> journal,
                    std::uint64_t generation);
  // Moves everything into LMDB and notes that the journal is closed. What cannot be moved stays in
  // the journal, for the next start.
  ~JournaledEventLog() override;

  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override { return last_seq_.load(std::memory_order_acquire); }
  LogBase base() override { return log_->base(); }
  std::string LoadAges() override { return log_->LoadAges(); }
  LogSizes sizes() override { return log_->sizes(); }
  LogSpace Space(std::uint64_t need) override;
  bool has_failed() override { return has_failed_.load(std::memory_order_acquire); }
  // Of everything that is durable when it is called.
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override;
  Digest identity() const override { return log_->identity(); }

 private:
  class TailReader;
  using Record = std::shared_ptr<const JournalRecord>;

  bool FitsJournal(const RowBatch& batch);
  std::expected<void, AppendError> AppendDirect(const RowBatch& batch);
  std::expected<void, AppendError> Journal(const RowBatch& batch);
  // Waits for older records to leave. Nothing when they cannot.
  std::optional<std::uint64_t> TakePart(std::uint64_t size);
  enum class Patience : std::uint8_t { kBounded, kUntilItEnds };
  // Until LMDB has every row up to `seq`. Fails with a line for people when it cannot.
  std::expected<void, std::string> Drain(std::uint64_t seq, Patience patience);
  // Nothing is appended any more, and what is confirmed is still moved.
  void Refuse(const std::string& reason);
  // Nor is anything written into LMDB: nobody knows what reached the disk.
  void Fail(const std::string& reason);
  AppendError Refusal();
  std::uint64_t PendingBytes();
  void Run();
  void MoveTail(std::unique_lock<std::mutex>& lock);
  // The tail's records with row `from` and later ones, as many as `rows_max` rows need. `first`
  // becomes the tail's first row: what is before it is in LMDB.
  std::vector<Record> TailFrom(std::uint64_t from, std::size_t rows_max, std::uint64_t& first);

  // constant after construction
  const std::unique_ptr<LmdbEventLog> log_;
  const std::unique_ptr<JournalFile> journal_;
  const std::uint64_t generation_;

  std::atomic<std::uint64_t> last_seq_;
  std::atomic<bool> has_failed_ = false;

  std::mutex mutex_;
  std::condition_variable work_;   // the thread has something to do sooner than it thinks
  std::condition_variable moved_;  // rows left the tail, or never will
  JournalRing ring_;               // guarded by mutex_
  std::deque<Record> tail_;        // guarded by mutex_: durable in the journal, perhaps not in LMDB
  std::uint64_t tail_bytes_ = 0;   // guarded by mutex_: of the rows in it
  bool is_hurried_ = false;        // guarded by mutex_
  bool is_stopping_ = false;       // guarded by mutex_
  bool is_unsure_ = false;         // guarded by mutex_: a record may be in the journal, or not
  std::string refusal_;            // guarded by mutex_: why nothing is appended any more
  std::string failure_;            // guarded by mutex_: why nothing is moved any more

  std::thread thread_;
};

}  // namespace recourse
