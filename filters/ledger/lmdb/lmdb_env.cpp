#include "filters/ledger/lmdb/lmdb_env.h"

#include <fmt/format.h>
#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "filters/ledger/lmdb/map_fault.h"
#include "proxy/base/check.h"

namespace recourse {
namespace {

constexpr unsigned int kNamedDatabasesMax = 8;

// LMDB checks what it maps here and there, and ends the process when it is nonsense.
void OnAssert(MDB_env*, const char*) { MapFault(MapTrouble::kDamagedPage); }

}  // namespace

std::string LmdbMessage(int code) { return mdb_strerror(code); }

std::expected<std::unique_ptr<LmdbEnv>, std::string> LmdbEnv::OpenWith(const std::string& path,
                                                                       std::uint64_t map_bytes,
                                                                       unsigned int flags) {
  MDB_env* env = nullptr;
  if (const int code = mdb_env_create(&env); code != 0) return std::unexpected(LmdbMessage(code));
  std::unique_ptr<LmdbEnv> opened(new LmdbEnv(env));
  (void)mdb_env_set_assert(env, OnAssert);
  int code = map_bytes == 0 ? 0 : mdb_env_set_mapsize(env, map_bytes);
  if (code == 0) code = mdb_env_set_maxdbs(env, kNamedDatabasesMax);
  // MDB_NOTLS: a read transaction belongs to its object, not to its thread.
  if (code == 0) code = mdb_env_open(env, path.c_str(), MDB_NOTLS | flags, 0600);
  if (code != 0) return std::unexpected(LmdbMessage(code));
  return opened;
}

std::expected<std::unique_ptr<LmdbEnv>, std::string> LmdbEnv::Open(const std::string& directory,
                                                                   std::uint64_t map_bytes) {
  auto opened = OpenWith(directory, map_bytes, 0);
  if (!opened) return opened;
  // Slots of readers that a killed process left behind keep pages from being reused.
  int dead = 0;
  (void)mdb_reader_check((*opened)->env_, &dead);  // housekeeping only
  return opened;
}

std::expected<std::unique_ptr<LmdbEnv>, std::string> LmdbEnv::OpenCopy(const std::string& file) {
  auto opened = OpenWith(file, 0, MDB_RDONLY | MDB_NOSUBDIR | MDB_NOLOCK);
  if (opened) (*opened)->is_read_only_ = true;
  return opened;
}

LmdbEnv::~LmdbEnv() { mdb_env_close(env_); }

std::expected<unsigned int, std::string> LmdbEnv::Database(const char* name, Missing missing) {
  LmdbTxn txn(*this, is_read_only_ ? LmdbTxn::Mode::kRead : LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  MDB_dbi database = 0;
  const unsigned int flags = missing == Missing::kMake ? MDB_CREATE : 0;
  const int code = mdb_dbi_open(txn.get(), name, flags, &database);
  if (code == MDB_NOTFOUND) {
    return std::unexpected(
        fmt::format("its database '{}' is missing; restore it from a backup", name));
  }
  if (code != 0) {
    return std::unexpected(LmdbMessage(code));
  }
  if (const int done = txn.Commit(); done != 0) return std::unexpected(LmdbMessage(done));
  return database;
}

std::uint64_t LmdbEnv::used_bytes() const {
  MDB_envinfo info{};
  MDB_stat stat{};
  if (mdb_env_info(env_, &info) != 0 || mdb_env_stat(env_, &stat) != 0) return 0;
  return (info.me_last_pgno + 1) * std::uint64_t{stat.ms_psize};
}

std::uint64_t LmdbEnv::last_transaction() const {
  MDB_envinfo info{};
  return mdb_env_info(env_, &info) == 0 ? info.me_last_txnid : 0;
}

std::uint64_t LmdbEnv::map_bytes() const {
  MDB_envinfo info{};
  return mdb_env_info(env_, &info) == 0 ? info.me_mapsize : 0;
}

std::uint64_t LmdbEnv::reusable_bytes() const {
  constexpr MDB_dbi kFreeList = 0;
  MDB_txn* txn = nullptr;
  MDB_stat stat{};
  if (mdb_env_stat(env_, &stat) != 0) return 0;
  if (mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn) != 0) return 0;
  MDB_cursor* cursor = nullptr;
  std::uint64_t pages = 0;
  if (mdb_cursor_open(txn, kFreeList, &cursor) == 0) {
    MDB_val key{};
    MDB_val value{};
    while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
      std::size_t count = 0;
      if (value.mv_size >= sizeof count) std::memcpy(&count, value.mv_data, sizeof count);
      pages += count;
    }
    mdb_cursor_close(cursor);
  }
  mdb_txn_abort(txn);
  return pages * std::uint64_t{stat.ms_psize};
}

int LmdbEnv::file() const {
  mdb_filehandle_t file = -1;
  return mdb_env_get_fd(env_, &file) == 0 ? file : -1;
}

std::expected<void, std::string> LmdbEnv::SyncFile() {
  if (fsync(file()) != 0) return std::unexpected(std::strerror(errno));
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
