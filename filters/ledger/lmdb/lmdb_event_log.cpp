#include "filters/ledger/lmdb/lmdb_event_log.h"

#include <endian.h>
#include <lmdb.h>

#include <cstring>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/hash.h"
#include "proxy/base/random.h"

namespace recourse {
namespace {

constexpr std::string_view kSchema = "1";
constexpr std::string_view kSchemaName = "schema";
constexpr std::string_view kIdentityName = "identity";

MDB_val ValueOf(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};  // LMDB does not write through it
}

std::string_view TextOf(const MDB_val& value) {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

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
    const bool found = mdb_get(txn, events_, &key, &value) == 0;
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
      if (!visit(SeqOf(key), TextOf(value))) return true;
      code = mdb_cursor_get(cursor.get(), &key, &value, MDB_NEXT);
    }
    return code == 0 || code == MDB_NOTFOUND;
  }

  LmdbReadTxn txn_;
  const MDB_dbi events_;
};

std::expected<std::unique_ptr<LmdbEventLog>, std::string> LmdbEventLog::Open(
    std::unique_ptr<LmdbEnv> env) {
  const auto meta = env->Database("meta");
  if (!meta) return std::unexpected(meta.error());
  const auto events = env->Database("events");
  if (!events) return std::unexpected(events.error());
  std::unique_ptr<LmdbEventLog> log(new LmdbEventLog(std::move(env), *events));
  if (auto checked = log->CheckSchema(*meta); !checked) return std::unexpected(checked.error());
  if (auto found = log->FindLast(); !found) return std::unexpected(found.error());
  return log;
}

std::expected<void, std::string> LmdbEventLog::CheckSchema(unsigned int meta) {
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  MDB_val key = ValueOf(kSchemaName);
  MDB_val value{};
  int code = mdb_get(txn.get(), meta, &key, &value);
  if (code == 0) {
    if (TextOf(value) == kSchema) return {};
    return std::unexpected("it was written with schema " + std::string(TextOf(value)) +
                           ", this version reads schema " + std::string(kSchema) +
                           "; start the version that wrote it");
  }
  if (code != MDB_NOTFOUND) return std::unexpected(LmdbMessage(code));
  value = ValueOf(kSchema);
  code = mdb_put(txn.get(), meta, &key, &value, 0);
  Digest identity{};
  SystemRandom().Fill(identity);
  key = ValueOf(kIdentityName);
  value = ValueOf(AsView(identity));
  if (code == 0) code = mdb_put(txn.get(), meta, &key, &value, 0);
  if (code == 0) code = txn.Commit();
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

std::expected<void, std::string> LmdbEventLog::Append(const RowBatch& batch) {
  RC_CHECK(batch.first_seq == last_seq_ + 1);
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    RowKey row_key(batch.first_seq + i);
    MDB_val key = row_key.value();
    MDB_val value = ValueOf(batch.row(i));
    const int code = mdb_put(txn.get(), events_, &key, &value, MDB_APPEND);
    if (code != 0) return std::unexpected(LmdbMessage(code));
  }
  if (batch.has_dispatching) RC_CRASH_POINT("k04");
  if (batch.has_outcome) RC_CRASH_POINT("k11");
  if (const int code = txn.Commit(); code != 0) return std::unexpected(LmdbMessage(code));
  last_seq_.store(batch.first_seq + batch.size() - 1, std::memory_order_release);
  return {};
}

std::unique_ptr<EventLog::Reader> LmdbEventLog::NewReader() {
  return std::make_unique<LmdbReader>(*env_, events_);
}

LogSizes LmdbEventLog::sizes() { return {env_->used_bytes(), env_->map_bytes()}; }

}  // namespace recourse
