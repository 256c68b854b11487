#include "filters/ledger/lmdb/lmdb_cold_index.h"

#include <lmdb.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "filters/ledger/lmdb/lmdb_value.h"
#include "proxy/base/bytes.h"
#include "proxy/base/crypto/crc32.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Half a digest finds its row; the row holds the whole key and is compared.
constexpr std::size_t kPrefixBytes = 16;
constexpr std::uint32_t kMarkVersion = 7;

MDB_val PrefixOf(const Digest& digest) { return ValueOf(AsView(digest).substr(0, kPrefixBytes)); }

// 0 found, MDB_NOTFOUND, or an error; `value` holds a copy.
int Get(LmdbReadTxn& reader, MDB_dbi database, const Digest& digest, std::string& value) {
  MDB_txn* const txn = reader.Renew();
  if (txn == nullptr) return MDB_PANIC;
  MDB_val key = PrefixOf(digest);
  MDB_val data{};
  const int code = mdb_get(txn, database, &key, &data);
  if (code == 0) value = TextOf(data);
  reader.Reset();
  return code;
}

// The entries of a map in key order, so that neighbours share their pages.
template <class Map>
std::vector<typename Map::const_pointer> Sorted(const Map& map) {
  std::vector<typename Map::const_pointer> entries;
  entries.reserve(map.size());
  for (const auto& entry : map) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(),
            [](const auto* a, const auto* b) { return a->first < b->first; });
  return entries;
}

// Puts all entries, in transactions of bounded size. Repeating it does no harm, so a crash between
// two of them costs nothing: the mark still names the old row.
template <class Map, class Encode>
int PutAll(LmdbEnv& env, MDB_dbi database, const Map& map, Encode encode) {
  const auto entries = Sorted(map);
  std::string bytes;
  for (std::size_t at = 0; at < entries.size();) {
    LmdbTxn txn(env, LmdbTxn::Mode::kWrite);
    if (!txn.ok()) return txn.error();
    const std::size_t end = std::min(entries.size(), at + limits::kIndexWriteChunk);
    for (; at < end; ++at) {
      bytes.clear();
      encode(ByteWriter(bytes), entries[at]->second);
      MDB_val key = PrefixOf(entries[at]->first);
      MDB_val value = ValueOf(bytes);
      if (const int code = mdb_put(txn.get(), database, &key, &value, 0); code != 0) return code;
    }
    if (const int code = txn.Commit(); code != 0) return code;
  }
  return 0;
}

// Over everything that a mark is made of; `head` is its own bytes up to the checksum.
std::uint32_t ChecksumOf(std::string_view head, const IndexMark& mark) {
  std::string lists;
  ByteWriter writer(lists);
  for (const OpenReference& open : mark.open) {
    writer.Int(open.operation);
    writer.Int(open.last_event);
  }
  for (const MovedOperation& moved : mark.moved) {
    writer.Int(moved.operation);
    writer.Raw(AsView(moved.key));
  }
  return Crc32(Crc32(Crc32(0, head), lists), mark.flows);
}

std::string EncodeMark(const IndexMark& mark) {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.Int(kMarkVersion);
  writer.Int(mark.applied_seq);
  writer.Raw(AsView(mark.applied_hash));
  writer.Int(mark.first_seq);
  writer.Int(mark.operations);
  writer.Int(mark.tombstones);
  writer.Int(mark.accepted_seq);
  writer.Int(std::uint64_t{mark.open.size()});
  writer.Int(std::uint64_t{mark.moved.size()});
  writer.Int(ChecksumOf(bytes, mark));
  return bytes;
}

// The part of a mark that stands in one value, and what that says of the others.
struct MarkHead {
  IndexMark mark;
  std::uint64_t open_count = 0, moved_count = 0;
  std::string bytes;  // up to the checksum
  std::uint32_t checksum = 0;
};

std::optional<MarkHead> DecodeMark(std::string_view bytes) {
  ByteReader reader(bytes);
  MarkHead head;
  IndexMark& mark = head.mark;
  const auto version = reader.Int<std::uint32_t>();
  mark.applied_seq = reader.Int<std::uint64_t>();
  const std::string_view hash = reader.Raw(mark.applied_hash.size());
  mark.first_seq = reader.Int<std::uint64_t>();
  mark.operations = reader.Int<std::uint64_t>();
  mark.tombstones = reader.Int<std::uint64_t>();
  mark.accepted_seq = reader.Int<std::uint64_t>();
  head.open_count = reader.Int<std::uint64_t>();
  head.moved_count = reader.Int<std::uint64_t>();
  if (version != kMarkVersion || !reader.ok()) return std::nullopt;
  head.bytes = bytes.substr(0, bytes.size() - sizeof(std::uint32_t));
  head.checksum = reader.Int<std::uint32_t>();
  if (!reader.at_end()) return std::nullopt;
  std::memcpy(mark.applied_hash.data(), hash.data(), hash.size());
  return head;
}

}  // namespace

std::expected<std::unique_ptr<LmdbColdIndex>, std::string> LmdbColdIndex::Open(
    std::unique_ptr<LmdbEnv> env, LmdbEnv::Missing missing) {
  Databases databases;
  for (const auto& [name, database] :
       {std::pair("keys", &databases.keys), std::pair("intents", &databases.intents),
        std::pair("open", &databases.open), std::pair("moved", &databases.moved),
        std::pair("meta", &databases.meta)}) {
    const auto opened = env->Database(name, missing);
    if (!opened) return std::unexpected(opened.error());
    *database = *opened;
  }
  return std::unique_ptr<LmdbColdIndex>(new LmdbColdIndex(std::move(env), databases));
}

std::optional<ColdEntry> LmdbColdIndex::FindKey(const Digest& key) {
  std::string bytes;  // 13 bytes: no allocation
  const int code = Get(reader_, databases_.keys, key, bytes);
  if (code == MDB_NOTFOUND) return std::nullopt;
  ByteReader reader(bytes);
  ColdEntry entry;
  entry.last_event = reader.Int<std::uint64_t>();
  entry.newest_generation = reader.Int<std::uint32_t>();
  entry.is_answered = reader.Int<std::uint8_t>() != 0;
  if (code == 0 && reader.at_end()) return entry;
  is_damaged_ = true;
  return std::nullopt;
}

std::optional<std::uint64_t> LmdbColdIndex::FindIntent(const Digest& intent) {
  std::string bytes;
  const int code = Get(reader_, databases_.intents, intent, bytes);
  if (code == MDB_NOTFOUND) return std::nullopt;
  ByteReader reader(bytes);
  const auto operation = reader.Int<std::uint64_t>();
  if (code == 0 && reader.at_end()) return operation;
  is_damaged_ = true;
  return std::nullopt;
}

std::expected<void, std::string> LmdbColdIndex::Write(const IndexSnapshot& snapshot) {
  int code =
      PutAll(*env_, databases_.keys, snapshot.keys, [](ByteWriter writer, const KeyEntry& entry) {
        writer.Int(entry.last_event);
        writer.Int(entry.newest_generation);
        writer.Int(static_cast<std::uint8_t>(entry.is_answered));
      });
  if (code == 0) {
    code = PutAll(*env_, databases_.intents, snapshot.intents,
                  [](ByteWriter writer, std::uint64_t operation) { writer.Int(operation); });
  }
  if (code == 0) code = WriteMark(snapshot.mark);
  if (code == 0) code = SweepSome(snapshot.mark);
  if (code != 0) return std::unexpected(LmdbMessage(code));
  return {};
}

int LmdbColdIndex::WriteMark(const IndexMark& mark) {
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return txn.error();
  int code = mdb_drop(txn.get(), databases_.open, 0);
  for (std::size_t i = 0; i < mark.open.size() && code == 0; ++i) {
    std::uint64_t order = __builtin_bswap64(mark.open[i].operation);
    std::uint64_t last_event = mark.open[i].last_event;
    MDB_val key{sizeof order, &order};
    MDB_val value{sizeof last_event, &last_event};
    code = mdb_put(txn.get(), databases_.open, &key, &value, MDB_APPEND);
  }
  if (code == 0) code = mdb_drop(txn.get(), databases_.moved, 0);
  for (std::size_t i = 0; i < mark.moved.size() && code == 0; ++i) {
    std::uint64_t order = __builtin_bswap64(mark.moved[i].operation);
    MDB_val key{sizeof order, &order};
    MDB_val value = ValueOf(AsView(mark.moved[i].key));
    code = mdb_put(txn.get(), databases_.moved, &key, &value, MDB_APPEND);
  }
  if (code != 0) return code;
  MDB_val flows_name = ValueOf("flows");
  MDB_val flows = ValueOf(mark.flows);
  code = mdb_put(txn.get(), databases_.meta, &flows_name, &flows, 0);
  if (code != 0) return code;
  const std::string bytes = EncodeMark(mark);
  MDB_val key = ValueOf("mark");
  MDB_val value = ValueOf(bytes);
  code = mdb_put(txn.get(), databases_.meta, &key, &value, 0);
  return code == 0 ? txn.Commit() : code;
}

std::optional<IndexMark> LmdbColdIndex::LoadMark() {
  const LmdbTxn txn(*env_, LmdbTxn::Mode::kRead);
  if (!txn.ok()) return std::nullopt;
  MDB_val key = ValueOf("mark");
  MDB_val value{};
  if (mdb_get(txn.get(), databases_.meta, &key, &value) != 0) return std::nullopt;
  auto head = DecodeMark(TextOf(value));
  if (!head) return std::nullopt;
  IndexMark& mark = head->mark;
  MDB_val flows_name = ValueOf("flows");
  if (mdb_get(txn.get(), databases_.meta, &flows_name, &value) != 0) return std::nullopt;
  mark.flows = TextOf(value);
  MDB_cursor* cursor = nullptr;
  if (mdb_cursor_open(txn.get(), databases_.open, &cursor) != 0) return std::nullopt;
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
    OpenReference open;
    if (key.mv_size != sizeof open.operation || value.mv_size != sizeof open.last_event) break;
    std::memcpy(&open.operation, key.mv_data, sizeof open.operation);
    open.operation = __builtin_bswap64(open.operation);
    std::memcpy(&open.last_event, value.mv_data, sizeof open.last_event);
    mark.open.push_back(open);
  }
  mdb_cursor_close(cursor);
  if (mark.open.size() != head->open_count) return std::nullopt;
  if (!LoadMoved(txn.get(), head->moved_count, mark)) return std::nullopt;
  if (head->checksum != ChecksumOf(head->bytes, mark)) return std::nullopt;
  return std::move(mark);
}

bool LmdbColdIndex::LoadMoved(MDB_txn* txn, std::uint64_t count, IndexMark& mark) {
  MDB_cursor* cursor = nullptr;
  if (mdb_cursor_open(txn, databases_.moved, &cursor) != 0) return false;
  MDB_val key{};
  MDB_val value{};
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
    MovedOperation moved;
    if (key.mv_size != sizeof moved.operation || value.mv_size != moved.key.size()) break;
    std::memcpy(&moved.operation, key.mv_data, sizeof moved.operation);
    moved.operation = __builtin_bswap64(moved.operation);
    std::memcpy(moved.key.data(), value.mv_data, moved.key.size());
    mark.moved.push_back(moved);
  }
  mdb_cursor_close(cursor);
  return mark.moved.size() == count;
}

// Entries of removed rows mean nothing to a look-up, so they may be taken out at leisure.
int LmdbColdIndex::SweepSome(const IndexMark& mark) {
  int code =
      SweepDatabase(databases_.keys, keys_sweep_, mark.first_seq,
                    [](std::uint64_t row, std::uint64_t first_seq) { return row < first_seq; });
  if (code != 0) return code;
  std::unordered_set<std::uint64_t> kept;
  for (const OpenReference& open : mark.open) kept.insert(open.operation);
  for (const MovedOperation& moved : mark.moved) kept.insert(moved.operation);
  return SweepDatabase(databases_.intents, intents_sweep_, mark.first_seq,
                       [&kept](std::uint64_t operation, std::uint64_t first_seq) {
                         return operation < first_seq && !kept.contains(operation);
                       });
}

template <class IsDead>
int LmdbColdIndex::SweepDatabase(unsigned int database, Sweep& sweep, std::uint64_t first_seq,
                                 IsDead is_dead) {
  std::size_t steps = 0;
  while (sweep.clean_seq < first_seq && steps < limits::kIndexSweepSteps) {
    if (sweep.at.empty()) sweep.first_seq = first_seq;
    LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
    if (!txn.ok()) return txn.error();
    MDB_cursor* cursor = nullptr;
    if (const int code = mdb_cursor_open(txn.get(), database, &cursor); code != 0) return code;
    MDB_val key = ValueOf(sweep.at);
    MDB_val value{};
    int code = mdb_cursor_get(cursor, &key, &value, sweep.at.empty() ? MDB_FIRST : MDB_SET_RANGE);
    std::size_t deleted = 0;
    while (code == 0 && steps < limits::kIndexSweepSteps && deleted < limits::kIndexWriteChunk) {
      ++steps;
      std::uint64_t row = 0;
      if (value.mv_size >= sizeof row) std::memcpy(&row, value.mv_data, sizeof row);
      if (is_dead(row, sweep.first_seq)) {
        ++deleted;
        code = mdb_cursor_del(cursor, 0);
      }
      if (code == 0) code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    std::string next = code == 0 ? std::string(TextOf(key)) : std::string();
    mdb_cursor_close(cursor);
    if (code != 0 && code != MDB_NOTFOUND) return code;
    if (const int done = txn.Commit(); done != 0) return done;
    if (code == MDB_NOTFOUND) sweep.clean_seq = sweep.first_seq;
    sweep.at = std::move(next);
  }
  return 0;
}

std::expected<void, std::string> LmdbColdIndex::Clear() {
  LmdbTxn txn(*env_, LmdbTxn::Mode::kWrite);
  if (!txn.ok()) return std::unexpected(LmdbMessage(txn.error()));
  for (const unsigned int database :
       {databases_.keys, databases_.intents, databases_.open, databases_.moved, databases_.meta}) {
    if (const int code = mdb_drop(txn.get(), database, 0); code != 0) {
      return std::unexpected(LmdbMessage(code));
    }
  }
  if (const int code = txn.Commit(); code != 0) return std::unexpected(LmdbMessage(code));
  is_damaged_ = false;
  keys_sweep_ = intents_sweep_ = Sweep();
  return {};
}

}  // namespace recourse
