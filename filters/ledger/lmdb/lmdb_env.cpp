#include "filters/ledger/lmdb/lmdb_env.h"

#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proxy/base/check.h"

namespace recourse {
namespace {

constexpr unsigned int kNamedDatabasesMax = 8;

}  // namespace

std::string LmdbMessage(int code) { return mdb_strerror(code); }

std::expected<std::unique_ptr<LmdbEnv>, std::string> LmdbEnv::Open(const std::string& directory,
                                                                   std::uint64_t map_bytes) {
  MDB_env* env = nullptr;
  if (const int code = mdb_env_create(&env); code != 0) return std::unexpected(LmdbMessage(code));
  std::unique_ptr<LmdbEnv> opened(new LmdbEnv(env));
  int code = mdb_env_set_mapsize(env, map_bytes);
  if (code == 0) code = mdb_env_set_maxdbs(env, kNamedDatabasesMax);
  // MDB_NOTLS: a read transaction belongs to its object, not to its thread.
  if (code == 0) code = mdb_env_open(env, directory.c_str(), MDB_NOTLS, 0600);
  if (code != 0) return std::unexpected(LmdbMessage(code));
  // Slots of readers that a killed process left behind keep pages from being reused.
  int dead = 0;
  (void)mdb_reader_check(env, &dead);  // housekeeping only
  return opened;
}

LmdbEnv::~LmdbEnv() { mdb_env_close(env_); }

std::expected<unsigned int, std::string> LmdbEnv::Database(const char* name) {
  LmdbTxn txn(*this, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  MDB_dbi database = 0;
  if (const int code = mdb_dbi_open(txn.get(), name, MDB_CREATE, &database); code != 0) {
    return std::unexpected(LmdbMessage(code));
  }
  if (const int code = txn.Commit(); code != 0) return std::unexpected(LmdbMessage(code));
  return database;
}

std::uint64_t LmdbEnv::used_bytes() const {
  MDB_envinfo info{};
  MDB_stat stat{};
  if (mdb_env_info(env_, &info) != 0 || mdb_env_stat(env_, &stat) != 0) return 0;
  return (info.me_last_pgno + 1) * std::uint64_t{stat.ms_psize};
}

std::uint64_t LmdbEnv::map_bytes() const {
  MDB_envinfo info{};
  return mdb_env_info(env_, &info) == 0 ? info.me_mapsize : 0;
}

std::expected<void, std::string> LmdbEnv::SyncFile() {
  mdb_filehandle_t file = -1;
  if (const int code = mdb_env_get_fd(env_, &file); code != 0) {
    return std::unexpected(LmdbMessage(code));
  }
  if (fsync(file) != 0) return std::unexpected(std::strerror(errno));
  return {};
}

LmdbTxn::LmdbTxn(LmdbEnv& env, Mode mode) {
  error_ = mdb_txn_begin(env.get(), nullptr, mode == Mode::kRead ? MDB_RDONLY : 0U, &txn_);
  if (error_ != 0) txn_ = nullptr;
}

LmdbTxn::~LmdbTxn() {
  if (txn_ != nullptr) mdb_txn_abort(txn_);
}

int LmdbTxn::Commit() {
  RC_CHECK(txn_ != nullptr);
  MDB_txn* const txn = txn_;
  txn_ = nullptr;
  return mdb_txn_commit(txn);
}

LmdbReadTxn::~LmdbReadTxn() {
  if (txn_ != nullptr) mdb_txn_abort(txn_);
}

MDB_txn* LmdbReadTxn::Renew() {
  if (txn_ != nullptr) return mdb_txn_renew(txn_) == 0 ? txn_ : nullptr;
  if (mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &txn_) != 0) txn_ = nullptr;
  return txn_;
}

void LmdbReadTxn::Reset() {
  if (txn_ != nullptr) mdb_txn_reset(txn_);
}

}  // namespace recourse
