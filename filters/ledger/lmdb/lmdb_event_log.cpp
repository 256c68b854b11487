#include "filters/ledger/lmdb/lmdb_event_log.h"

#include <endian.h>
#include <lmdb.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "filters/ledger/lmdb/lmdb_copy.h"
#include "filters/ledger/lmdb/lmdb_value.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/crypto/crc32.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/random.h"

namespace recourse {
namespace {

constexpr std::string_view kSchema = "5";
constexpr std::string_view kOldSchemas[] = {"1", "2", "3", "4"};
constexpr std::string_view kSchemaName = "schema";
constexpr std::string_view kIdentityName = "identity";
constexpr std::string_view kInstallName = "install";
constexpr std::string_view kBaseName = "base";
constexpr std::string_view kAgesName = "ages";
constexpr std::string_view kJournalName = "journal";
constexpr char kMetaDatabase[] = "meta";
constexpr char kEventsDatabase[] = "events";

// A row number as LMDB orders it.
class RowKey {
 public:
  explicit RowKey(std::uint64_t seq) : bytes_(htobe64(seq)) {}
  MDB_val value() { return {sizeof bytes_, &bytes_}; }

 private:
  std::uint64_t bytes_;
};

// 0 for a key that is no row number.
std::uint64_t SeqOf(const MDB_val& key) {
  std::uint64_t bytes = 0;
  if (key.mv_size != sizeof bytes) return 0;
  std::memcpy(&bytes, key.mv_data, sizeof bytes);
  return be64toh(bytes);
}

struct CursorCloser {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using Cursor = std::unique_ptr<MDB_cursor, CursorCloser>;

Cursor OpenCursor(MDB_txn* txn, MDB_dbi database) {
  MDB_cursor* cursor = nullptr;
  if (mdb_cursor_open(txn, database, &cursor) != 0) return nullptr;
  return Cursor(cursor);
}

// `bytes` stay empty when there is no such entry.
int GetMeta(LmdbEnv& env, MDB_dbi meta, std::string_view name, std::string& bytes) {
  const LmdbTxn txn(env, LmdbTxn::Mode::kRead);
  if (!txn.ok()) return txn.error();
  MDB_val key = ValueOf(name);
  MDB_val value{};
  const int code = mdb_get(txn.get(), meta, &key, &value);
  if (code == 0) bytes = TextOf(value);
  return code == MDB_NOTFOUND ? 0 : code;
}

int PutMeta(MDB_txn* txn, MDB_dbi meta, std::string_view name, std::string_view bytes) {
  MDB_val key = ValueOf(name);
  MDB_val value = ValueOf(bytes);
  return mdb_put(txn, meta, &key, &value, 0);
}

// With a sum of its own, as no row depends on it.
std::string EncodeState(const JournalState& state) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.Int(state.generation);
  writer.Int(static_cast<std::uint8_t>(state.is_open ? 1 : 0));
  writer.Raw({reinterpret_cast<const char*>(state.id.data()), state.id.size()});
  writer.Int(Crc32(0, bytes));
  return bytes;
}

}  // namespace

class LmdbEventLog::LmdbReader final : public EventLog::Reader {
 public:
  LmdbReader(LmdbEnv& env, MDB_dbi events) : txn_(env), events_(events) {}

  bool Read(std::uint64_t seq, std::string& row) override {
    MDB_txn* const txn = txn_.Renew();
    if (txn == nullptr) return false;
    RowKey row_key(seq);
    MDB_val key = row_key.value();
    MDB_val value{};
    const bool found = mdb_get(txn, events_, &key, &value) == 0 && HasItsSize(TextOf(value));
    if (found) row = TextOf(value);
    txn_.Reset();
    return found;
  }

  bool Scan(std::uint64_t from, std::size_t rows_max, const Visit& visit) override {
    MDB_txn* const txn = txn_.Renew();
    if (txn == nullptr) return false;
    const bool done = ScanIn(txn, from, rows_max, visit);
    txn_.Reset();
    return done;
  }

 private:
  bool ScanIn(MDB_txn* txn, std::uint64_t from, std::size_t rows_max, const Visit& visit) {
    const Cursor cursor = OpenCursor(txn, events_);
    if (!cursor) return false;
    RowKey row_key(from);
    MDB_val key = row_key.value();
    MDB_val value{};
    int code = mdb_cursor_get(cursor.get(), &key, &value, MDB_SET_RANGE);
    for (std::size_t i = 0; i < rows_max && code == 0; ++i) {
      const std::string_view row = TextOf(value);
      if (!visit(SeqOf(key), HasItsSize(row) ? row : std::string_view())) return true;
      code = mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT);
    }
    return code == 0 || code == MDB_NOTFOUND;
  }

  LmdbReadTxn txn_;
  const MDB_dbi events_;
};

std::expected<void, std::string> LmdbEventLog::Create(LmdbEnv& env) {
  const auto meta = env.Database(kMetaDatabase, LmdbEnv::Missing::kMake);
  if (!meta) return std::unexpected(meta.error());
  const auto events = env.Database(kEventsDatabase, LmdbEnv::Missing::kMake);
  if (!events) return std::unexpected(events.error());
  Digest identity{};
  SystemRandom().Fill(identity);
  LmdbTxn txn(env, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  int code = PutMeta(txn.get(), *meta, kSchemaName, kSchema);
  if (code == 0) code = PutMeta(txn.get(), *meta, kIdentityName, AsView(identity));
  if (code == 0) code = PutMeta(txn.get(), *meta, kJournalName, EncodeState({}));
  if (code == 0) code = txn.Commit();
  if (code != 0) return std::unexpected(LmdbMessage(code));
  return env.SyncFile();
}

std::expected<std::unique_ptr<LmdbEventLog>, std::string> LmdbEventLog::Open(
    std::unique_ptr<LmdbEnv> env, std::shared_ptr<const DataFile> file) {
  const auto meta = env->Database(kMetaDatabase, LmdbEnv::Missing::kFail);
  if (!meta) return std::unexpected(meta.error());
  const auto events = env->Database(kEventsDatabase, LmdbEnv::Missing::kFail);
  if (!events) return std::unexpected(events.error());
  std::unique_ptr<LmdbEventLog> log(
      new LmdbEventLog(std::move(env), std::move(file), *meta, *events));
  if (auto checked = log->CheckSchema(); !checked) return std::unexpected(checked.error());
  if (auto found = log->FindLast(); !found) return std::unexpected(found.error());
  if (auto loaded = log->LoadBase(); !loaded) return std::unexpected(loaded.error());
  if (auto loaded = log->LoadJournal(); !loaded) return std::unexpected(loaded.error());
  return log;
}

std::expected<void, std::string> LmdbEventLog::CheckSchema() {
  std::string found, identity;
  int code = GetMeta(*env_, meta_, kSchemaName, found);
  if (code == 0) code = GetMeta(*env_, meta_, kIdentityName, identity);
  if (code != 0) return std::unexpected(LmdbMessage(code));
  if (found.empty()) {
    return std::unexpected("data.mdb is an LMDB file but no ledger; restore it from a backup");
  }
  const bool is_old = std::ranges::find(kOldSchemas, found) != std::end(kOldSchemas);
  if (found != kSchema && !is_old) {
    return std::unexpected("it was written with schema " + found + ", this version reads schemas " +
                           std::string(kOldSchemas[0]) + " to " + std::string(kSchema) +
                           "; start the version that wrote it");
  }
  if (identity.size() != identity_.size()) {
    return std::unexpected("data.mdb holds no identity; restore it from a backup");
  }
  std::memcpy(identity_.data(), identity.data(), identity_.size());
  if (is_old) old_schema_ = found;
  return {};
}

// Schema 1 had no base and no ages: what stands there when they are missing is right for it. Schema
// 2 had no journal, 3 no principals, 4 no states. A kill leaves the old number or the new one.
std::expected<void, std::string> LmdbEventLog::Upgrade() {
  if (old_schema_.empty()) return {};
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  int code = PutMeta(txn.get(), meta_, kSchemaName, kSchema);
  if (code == 0) code = PutMeta(txn.get(), meta_, kJournalName, EncodeState(journal_));
  if (code == 0) code = Commit(txn);
  if (code != 0) return std::unexpected(LmdbMessage(code));
  Log(LogLevel::kInfo, "the ledger was brought from an older schema to this one",
      {{"from", old_schema_}, {"to", std::string(kSchema)}});
  old_schema_.clear();
  return {};
}

std::expected<void, std::string> LmdbEventLog::BindInstall(std::string_view install_id) {
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  MDB_val key = ValueOf(kInstallName);
  MDB_val value{};
  int code = mdb_get(txn.get(), meta_, &key, &value);
  if (code == 0 && TextOf(value) == install_id) return {};
  if (code == 0) {
    return std::unexpected(
        "install.secret is not the one that this ledger's keys were made with; with another one "
        "every call would run again. Restore it from the same backup as the ledger; ledgers that "
        "are to share a secret begin with it (--install-secret-file)");
  }
  if (code == MDB_NOTFOUND) {
    value = ValueOf(install_id);
    code = mdb_put(txn.get(), meta_, &key, &value, 0);
    if (code == 0) code = Commit(txn);
  }
  if (code != 0) return std::unexpected(LmdbMessage(code));
  return {};
}

std::expected<void, std::string> LmdbEventLog::FindLast() {
  const LmdbTxn txn(*env_, LmdbTxn::Mode::kRead);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  const Cursor cursor = OpenCursor(txn.get(), events_);
  if (!cursor) return std::unexpected("no cursor");
  MDB_val key{};
  MDB_val value{};
  const int code = mdb_cursor_get(cursor.get(), &key, &value, MDB_LAST);
  if (code != 0 && code != MDB_NOTFOUND) return std::unexpected(LmdbMessage(code));
  last_seq_ = code == 0 ? SeqOf(key) : 0;
  return {};
}

// Checks it against the first row: a log and a base that do not fit are refused.
std::expected<void, std::string> LmdbEventLog::LoadBase() {
  std::string bytes;
  if (const int code = GetMeta(*env_, meta_, kBaseName, bytes); code != 0) {
    return std::unexpected(LmdbMessage(code));
  }
  LogBase base;
  if (!bytes.empty()) {
    ByteReader reader(bytes);
    base.first_seq = reader.Int<std::uint64_t>();
    const std::string_view hash = reader.Raw(base.prev_hash.size());
    if (!reader.at_end() || base.first_seq == 0) {
      return std::unexpected("where its rows begin cannot be read; restore it from a backup");
    }
    std::memcpy(base.prev_hash.data(), hash.data(), hash.size());
  }
  const LmdbTxn txn(*env_, LmdbTxn::Mode::kRead);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  const Cursor cursor = OpenCursor(txn.get(), events_);
  if (!cursor) return std::unexpected("no cursor");
  MDB_val key{};
  MDB_val value{};
  const int code = mdb_cursor_get(cursor.get(), &key, &value, MDB_FIRST);
  if (code != 0 && code != MDB_NOTFOUND) return std::unexpected(LmdbMessage(code));
  const std::uint64_t first = code == 0 ? SeqOf(key) : 1;
  if (first != base.first_seq) {
    return std::unexpected("row " + std::to_string(base.first_seq) +
                           " is missing; restore the directory from a backup");
  }
  base_ = base;
  return {};
}

std::expected<void, std::string> LmdbEventLog::LoadJournal() {
  std::string bytes;
  if (const int code = GetMeta(*env_, meta_, kJournalName, bytes); code != 0) {
    return std::unexpected(LmdbMessage(code));
  }
  if (bytes.empty() && !old_schema_.empty()) return {};
  ByteReader reader(bytes);
  journal_.generation = reader.Int<std::uint64_t>();
  journal_.is_open = reader.Int<std::uint8_t>() != 0;
  const std::string_view id = reader.Raw(journal_.id.size());
  const std::size_t size = bytes.size() - reader.left();
  const auto crc = reader.Int<std::uint32_t>();
  if (!reader.at_end() || crc != Crc32(0, std::string_view(bytes).substr(0, size))) {
    return std::unexpected(
        "what it notes of its journal is missing or damaged; restore it from a backup");
  }
  std::memcpy(journal_.id.data(), id.data(), id.size());
  return {};
}

std::expected<void, std::string> LmdbEventLog::SetJournal(const JournalState& state) {
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  int code = PutMeta(txn.get(), meta_, kJournalName, EncodeState(state));
  if (code == 0) code = Commit(txn);
  if (code != 0) return std::unexpected(LmdbMessage(code));
  journal_ = state;
  return {};
}

int LmdbEventLog::PutBatch(MDB_txn* txn, const RowBatch& batch) {
  int code = 0;
  for (std::size_t i = 0; i < batch.size() && code == 0; ++i) {
    RowKey row_key(batch.first_seq + i);
    MDB_val key = row_key.value();
    MDB_val value = ValueOf(batch.row(i));
    code = mdb_put(txn, events_, &key, &value, MDB_APPEND);
  }
  if (batch.base && code == 0) {
    for (std::uint64_t seq = base().first_seq; seq < batch.base->first_seq && code == 0; ++seq) {
      RowKey row_key(seq);
      MDB_val key = row_key.value();
      code = mdb_del(txn, events_, &key, nullptr);
    }
    std::string bytes;
    ByteWriter writer(bytes);
    writer.Int(batch.base->first_seq);
    writer.Raw(AsView(batch.base->prev_hash));
    if (code == 0) code = PutMeta(txn, meta_, kBaseName, bytes);
  }
  if (!batch.ages.empty() && code == 0) code = PutMeta(txn, meta_, kAgesName, batch.ages);
  return code;
}

std::expected<void, AppendError> LmdbEventLog::Append(const RowBatch& batch) {
  RC_CHECK(batch.first_seq == last_seq_ + 1);
  if (!is_in_place()) {
    return std::unexpected(AppendError{"data.mdb was removed or replaced while it was in use"});
  }
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(AppendError{LmdbMessage(txn.error())});
  if (const int code = PutBatch(txn.get(), batch); code != 0) {
    return std::unexpected(AppendError{LmdbMessage(code), code == MDB_MAP_FULL});
  }
  if (batch.has_dispatching) RC_CRASH_POINT("k04");
  if (batch.has_outcome) RC_CRASH_POINT("k11");
  if (batch.base) RC_CRASH_POINT("k23");
  if (batch.base) {
    // Before the rows are gone, so that who misses one knows why.
    const std::lock_guard lock(base_mutex_);
    base_ = *batch.base;
  }
  if (const int code = Commit(txn); code != 0) {
    return std::unexpected(AppendError{LmdbMessage(code)});
  }
  if (batch.base) RC_CRASH_POINT("k23");
  last_seq_.store(batch.first_seq + batch.size() - 1, std::memory_order_release);
  return {};
}

// What LMDB undoes after a failure looks like a lost commit to the next start, unless that is told.
int LmdbEventLog::Commit(LmdbTxn& txn) {
  const int code = txn.Commit();
  if (code != 0) file_->NoteFailedCommit(env_->last_transaction());
  return code;
}

LogBase LmdbEventLog::base() {
  const std::lock_guard lock(base_mutex_);
  return base_;
}

std::string LmdbEventLog::LoadAges() {
  std::string bytes;
  return GetMeta(*env_, meta_, kAgesName, bytes) == 0 ? bytes : std::string();
}

std::unique_ptr<EventLog::Reader> LmdbEventLog::NewReader() {
  return std::make_unique<LmdbReader>(*env_, events_);
}

std::expected<std::unique_ptr<LedgerCopy>, std::string> LmdbEventLog::StartCopy() {
  return LmdbCopy::Start(*env_, is_copied_);
}

std::uint64_t LmdbEventLog::UnusedBytes(std::uint64_t need) {
  const std::uint64_t used = env_->used_bytes();
  const std::uint64_t secured = space_.Secure(used, need);
  return secured - std::min(secured, used);
}

LogSpace LmdbEventLog::Space(std::uint64_t need) {
  constexpr int kShortPercent = 70;
  const std::uint64_t used = env_->used_bytes();
  const std::uint64_t secured = space_.Secure(used, need);
  const std::uint64_t total = std::max(space_.Reachable(), used);
  LogSpace space;
  space.free_bytes = secured - std::min(secured, used);
  space.used_percent = static_cast<int>(used * 100 / total);
  // The list of free pages is read only when they matter.
  if (space.free_bytes >= need + limits::kSpacePlenty && space.used_percent < kShortPercent) {
    return space;
  }
  const std::uint64_t reusable = env_->reusable_bytes();
  // A copy reads an old state for minutes, and nothing that it still reads is used again.
  if (!is_copied_) space.free_bytes += reusable;
  space.used_percent = static_cast<int>((used - std::min(used, reusable)) * 100 / total);
  return space;
}

LogSizes LmdbEventLog::sizes() { return {env_->used_bytes(), env_->map_bytes()}; }

}  // namespace recourse
