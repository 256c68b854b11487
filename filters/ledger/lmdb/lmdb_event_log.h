// The rows in LMDB: database `events`, key = row number as eight big-endian bytes, appended.
// Database `meta`: the schema number, the identity of this ledger, which install secret it belongs
// to, where the rows begin, their ages, and whether a journal has rows that are not here.
#pragma once

#include <atomic>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "filters/ledger/lmdb/data_file.h"
#include "filters/ledger/lmdb/file_space.h"
#include "filters/ledger/lmdb/journal_state.h"
#include "filters/ledger/lmdb/lmdb_env.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

class LmdbEventLog final : public EventLog {
 public:
  // Takes over an opened environment. `file` is what it maps; nothing is appended once the path
  // leads elsewhere. Writes nothing. Fails with a line for people when the schema is a newer one.
  static std::expected<std::unique_ptr<LmdbEventLog>, std::string> Open(
      std::unique_ptr<LmdbEnv> env, std::shared_ptr<const DataFile> file);
  // Fills an empty environment with an empty ledger of a new identity, durably.
  static std::expected<void, std::string> Create(LmdbEnv& env);

  // Brings a log of an older schema up to this one, in one transaction. Before the first Append.
  // Fails with a line for people.
  std::expected<void, std::string> Upgrade();

  // Remembers which install secret this ledger's keys are made with, or checks that it is the same.
  // Fails with a line for people.
  std::expected<void, std::string> BindInstall(std::string_view install_id);

  JournalState journal() const { return journal_; }
  // Remembers it durably. Fails with a line for people.
  std::expected<void, std::string> SetJournal(const JournalState& state);
  // Whether the path still leads to the file that is written. Thread-safe.
  bool is_in_place() const { return file_->is_in_place(); }
  // How much lies between the used part of the file and what the disk has given it, after taking
  // more when that is less than `need`. The thread that calls Space only.
  std::uint64_t UnusedBytes(std::uint64_t need);

  std::expected<void, AppendError> Append(const RowBatch& batch) override;
  std::unique_ptr<Reader> NewReader() override;
  std::uint64_t last_seq() override { return last_seq_.load(std::memory_order_acquire); }
  LogBase base() override;
  std::string LoadAges() override;
  LogSizes sizes() override;
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override;
  LogSpace Space(std::uint64_t need) override;
  Digest identity() const override { return identity_; }

 private:
  class LmdbReader;

  LmdbEventLog(std::unique_ptr<LmdbEnv> env, std::shared_ptr<const DataFile> file,
               unsigned int meta, unsigned int events)
      : env_(std::move(env)),
        file_(std::move(file)),
        meta_(meta),
        events_(events),
        space_(env_->file(), env_->map_bytes()) {}
  std::expected<void, std::string> CheckSchema();
  std::expected<void, std::string> FindLast();
  std::expected<void, std::string> LoadBase();
  std::expected<void, std::string> LoadJournal();
  int Commit(LmdbTxn& txn);
  int PutBatch(MDB_txn* txn, const RowBatch& batch);

  // constant after construction
  const std::unique_ptr<LmdbEnv> env_;
  const std::shared_ptr<const DataFile> file_;
  const unsigned int meta_, events_;
  Digest identity_{};

  std::string old_schema_;  // empty: it has this one
  JournalState journal_;    // as it was found, or set last
  FileSpace space_;         // owned by the thread that asks for space
  std::atomic<std::uint64_t> last_seq_ = 0;
  std::atomic<bool> is_copied_ = false;
  std::mutex base_mutex_;
  LogBase base_;  // guarded by base_mutex_
};

}  // namespace recourse
