// One LMDB environment and its transactions, RAII. Nothing outside this folder sees LMDB.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>

struct MDB_env;
struct MDB_txn;

namespace recourse {

std::string LmdbMessage(int code);

class LmdbEnv {
 public:
  // Opens or creates data.mdb in `directory`, which exists. Default sync flags, nothing weaker.
  // Fails with a line for people.
  static std::expected<std::unique_ptr<LmdbEnv>, std::string> Open(const std::string& directory,
                                                                   std::uint64_t map_bytes);
  // Opens the file of an environment that nobody uses, for reading alone.
  static std::expected<std::unique_ptr<LmdbEnv>, std::string> OpenCopy(const std::string& file);
  ~LmdbEnv();
  LmdbEnv(const LmdbEnv&) = delete;
  LmdbEnv& operator=(const LmdbEnv&) = delete;

  MDB_env* get() const { return env_; }
  // Opens a named database, creating it when missing and may be. Start-up only.
  // A ledger that exists has its databases: one that is missing was lost, and an empty one in its
  // place would forget what was done.
  enum class Missing : std::uint8_t { kFail, kMake };
  std::expected<unsigned int, std::string> Database(const char* name, Missing missing);
  std::uint64_t used_bytes() const;        // thread-safe
  std::uint64_t last_transaction() const;  // the newest commit's number
  std::uint64_t map_bytes() const;         // thread-safe
  // Bytes in pages that LMDB will use again. Reads its list of them.
  std::uint64_t reusable_bytes() const;
  int file() const;  // LMDB's own descriptor; -1: none
  // fsync of the file itself; LMDB syncs data, not the file's first creation.
  std::expected<void, std::string> SyncFile();

 private:
  explicit LmdbEnv(MDB_env* env) : env_(env) {}
  static std::expected<std::unique_ptr<LmdbEnv>, std::string> OpenWith(const std::string& path,
                                                                       std::uint64_t map_bytes,
                                                                       unsigned int flags);

  MDB_env* const env_;
  bool is_read_only_ = false;
};

class LmdbTxn {
 public:
  enum class Mode : std::uint8_t { kRead, kWrite };

  // ok() is false when it could not begin; then get() is null.
  LmdbTxn(LmdbEnv& env, Mode mode);
  ~LmdbTxn();
  LmdbTxn(const LmdbTxn&) = delete;
  LmdbTxn& operator=(const LmdbTxn&) = delete;

  bool ok() const { return txn_ != nullptr; }
  int error() const { return error_; }
  MDB_txn* get() const { return txn_; }
  // Once. 0 or an LMDB error.
  int Commit();

 private:
  MDB_txn* txn_ = nullptr;
  int error_ = 0;
};

// A read transaction that is kept and renewed: its snapshot lasts from Renew to Reset.
class LmdbReadTxn {
 public:
  explicit LmdbReadTxn(LmdbEnv& env) : env_(env) {}
  ~LmdbReadTxn();
  LmdbReadTxn(const LmdbReadTxn&) = delete;
  LmdbReadTxn& operator=(const LmdbReadTxn&) = delete;

  // nullptr when it cannot begin.
  MDB_txn* Renew();
  void Reset();

 private:
  LmdbEnv& env_;
  MDB_txn* txn_ = nullptr;
};

}  // namespace recourse
