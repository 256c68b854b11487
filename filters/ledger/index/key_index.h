// Finds operations by key and by intent. Derived from the events: it can be thrown away and is
// rebuilt from them, so it is no part of the durable transaction.
//
// Fresh entries are hot, in memory. When they are many they are frozen and written by another
// thread into a ColdIndex; look-ups consult hot, frozen, then cold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/key_entry.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/error.h"

namespace recourse {

// What the index knows of a key whose tombstone stands in row `seq`. The newest generation is the
// larger one of the two.
KeyEntry EntryOf(const Tombstone& tombstone, std::uint64_t seq, std::uint32_t newest_generation);
// Stands for generation 0 of a key of which only later generations are left; row `seq` is of one.
KeyEntry PlaceholderOf(std::uint64_t seq, std::int64_t wall_ms, std::uint32_t newest_generation);

// An operation in DISPATCHING or UNCERTAIN, as a checkpoint keeps it.
struct OpenReference {
  std::uint64_t operation = 0;
  std::uint64_t last_event = 0;
};

// Up to which row a stored index is complete.
struct IndexMark {
  std::uint64_t applied_seq = 0;
  Digest applied_hash{};        // of that row: an index of another log is recognised by it
  std::uint64_t first_seq = 1;  // rows before it are gone, and entries that name them mean nothing
  std::uint64_t operations = 0;
  std::uint64_t tombstones = 0;
  std::uint64_t accepted_seq = 0;     // row of the newest "ledger.accept"; 0: none
  std::vector<OpenReference> open;    // by operation, each once
  std::vector<MovedOperation> moved;  // likewise
  std::string flows;                  // OpenFlows::Encode
};

// The hot part at one moment.
struct IndexSnapshot {
  std::unordered_map<Digest, KeyEntry, DigestHash> keys;
  // Of an intent the operation that was sent last, of a mark the row of the last effect there.
  std::unordered_map<Digest, std::uint64_t, DigestHash> intents;
  IndexMark mark;
};

struct ColdEntry {
  std::uint64_t last_event = 0;
  std::uint32_t newest_generation = 0;
  bool is_answered = false;
};

// The stored part. Entries are small: the rest of a KeyEntry is in the row they name.
class ColdIndex {
 public:
  virtual ~ColdIndex() = default;
  // One thread. nullopt also when the index cannot be read: then is_damaged() is true.
  virtual std::optional<ColdEntry> FindKey(const Digest& key) = 0;
  virtual std::optional<std::uint64_t> FindIntent(const Digest& intent) = 0;
  virtual bool is_damaged() const = 0;
  // One thread, which may be another one. Fails with a line for people; may then be called again
  // with the same snapshot. Also takes out some of the entries that name removed rows: all of them
  // in the course of a few calls.
  virtual std::expected<void, std::string> Write(const IndexSnapshot& snapshot) = 0;
  // nullopt when nothing whole was ever written.
  virtual std::optional<IndexMark> LoadMark() = 0;
  // Forgets everything.
  virtual std::expected<void, std::string> Clear() = 0;
};

// Single-threaded, but for a ColdIndex writing elsewhere.
class KeyIndex {
 public:
  // `cold` may be null: then everything stays hot. Both outlive the index.
  KeyIndex(EventLog& log, ColdIndex* cold, std::size_t hot_entries_max);

  // The entry of exactly this key. nullopt: none, or one that names a row before first_seq.
  // Fails when what is stored cannot be read.
  Result<std::optional<KeyEntry>> Find(const Digest& key);
  Result<std::optional<std::uint64_t>> FindIntent(const Digest& intent);
  // Of a mark (standing.h): its row, if that is behind `since`.
  Result<std::optional<std::uint64_t>> FindSince(const Digest& mark, std::uint64_t since);
  void Put(const Digest& key, const KeyEntry& entry) { hot_.keys[key] = entry; }
  // That generation of the key means the operation, as `row` says. False: what is stored cannot be
  // read.
  bool PutAlias(const Alias& alias, std::uint64_t row, std::int64_t wall_ms);
  // Generation 0 of a key stands for all: it tells which one answers now. `row` and its wall time
  // say so. False: what is stored cannot be read.
  bool PutGeneration(const Digest& base_key, std::uint32_t generation, std::uint64_t row,
                     std::int64_t wall_ms);
  void PutIntent(const Digest& intent, std::uint64_t operation) {
    hot_.intents[intent] = operation;
  }
  // The same without reading the row that the entry names, which is all that `last_event` needs.
  Result<std::optional<ColdEntry>> Locate(const Digest& key);
  // Rows before it are gone. Whatever they said of a key that is still known was said again.
  void set_first_seq(std::uint64_t seq) { first_seq_ = seq; }
  // Frees the memory of an entry that names a removed row.
  void Forget(const Digest& key) { hot_.keys.erase(key); }
  void ForgetIntent(const Digest& intent, std::uint64_t operation);

  // Time to freeze: the hot part is over its limit, or many rows would have to be scanned.
  bool WantsFreeze(std::uint64_t applied_seq) const;
  // So far over the limit that a checkpoint should be waited for.
  bool is_crowded() const;
  // A batch further: checkpoints fail, so nothing new may come in.
  bool is_full() const;
  // What is frozen and not stored yet; null: nothing.
  const std::shared_ptr<const IndexSnapshot>& frozen() const { return frozen_; }
  // What is stored does not fit the log. From then on only what is in memory is found; everything
  // else fails, because "not found" would mean a second execution.
  bool is_damaged() const { return is_damaged_; }
  // Takes the hot part away to be written; it stays visible until DropFrozen.
  std::shared_ptr<const IndexSnapshot> Freeze(IndexMark mark);
  // The frozen part is stored now.
  void DropFrozen() { frozen_.reset(); }
  void set_stored_seq(std::uint64_t seq) { stored_seq_ = seq; }

 private:
  Result<std::optional<KeyEntry>> FindAny(const Digest& key);
  Result<std::optional<KeyEntry>> Hydrate(const Digest& key, const ColdEntry& cold);
  std::unexpected<Error> Damaged();

  // constant after construction
  ColdIndex* const cold_;
  const std::size_t hot_entries_max_;
  const std::unique_ptr<EventLog::Reader> reader_;

  IndexSnapshot hot_;
  std::shared_ptr<const IndexSnapshot> frozen_;
  std::uint64_t first_seq_ = 1;
  std::uint64_t stored_seq_ = 0;  // rows up to here are frozen or cold
  bool is_damaged_ = false;
  std::string row_;  // reused
};

}  // namespace recourse
