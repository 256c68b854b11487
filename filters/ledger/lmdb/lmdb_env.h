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
  // Opens or creates data.mdb in `directory`, which exists. Default sync flags, nothing weaker
  // (semantics 0.9). Fails with a line for people.
  static std::expected<std::unique_ptr<LmdbEnv>, std::string> Open(const std::string& directory,
                                                                   std::uint64_t map_bytes);
  ~LmdbEnv();
  LmdbEnv(const LmdbEnv&) = delete;
  LmdbEnv& operator=(const LmdbEnv&) = delete;

  MDB_env* get() const { return env_; }
  // Opens a named database, creating it when missing. Start-up only.
  std::expected<unsigned int, std::string> Database(const char* name);
  std::uint64_t used_bytes() const;  // thread-safe
  std::uint64_t map_bytes() const;   // thread-safe
  // fsync of the file itself; LMDB syncs data, not the file's first creation.
  std::expected<void, std::string> SyncFile();

 private:
  explicit LmdbEnv(MDB_env* env) : env_(env) {}

  MDB_env* const env_;
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
