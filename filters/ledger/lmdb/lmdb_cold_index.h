// The stored part of the key index: an LMDB environment of its own that may be thrown away.
// Databases `keys` and `intents`: the first 16 bytes of a digest to a small entry; `open`:
// operations in DISPATCHING or UNCERTAIN; `moved`: operations kept without their first row; `meta`:
// up to which row all that is complete.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "filters/ledger/index/key_index.h"
#include "filters/ledger/lmdb/lmdb_env.h"

namespace recourse {

class LmdbColdIndex final : public ColdIndex {
 public:
  // Takes over an opened environment. Fails with a line for people.
  static std::expected<std::unique_ptr<LmdbColdIndex>, std::string> Open(
      std::unique_ptr<LmdbEnv> env, LmdbEnv::Missing missing);

  std::optional<ColdEntry> FindKey(const Digest& key) override;
  std::optional<std::uint64_t> FindIntent(const Digest& intent) override;
  bool is_damaged() const override { return is_damaged_; }
  std::expected<void, std::string> Write(const IndexSnapshot& snapshot) override;
  std::optional<IndexMark> LoadMark() override;
  std::expected<void, std::string> Clear() override;

 private:
  struct Databases {
    unsigned int keys = 0, intents = 0, open = 0, moved = 0, meta = 0;
  };

  LmdbColdIndex(std::unique_ptr<LmdbEnv> env, Databases databases)
      : env_(std::move(env)), databases_(databases), reader_(*env_) {}
  int WriteMark(const IndexMark& mark);
  bool LoadMoved(MDB_txn* txn, std::uint64_t count, IndexMark& mark);
  // Where the next look for entries of removed rows starts in a database, and what is left of it.
  struct Sweep {
    std::string at;               // empty: at the beginning
    std::uint64_t first_seq = 1;  // of the pass that runs
    std::uint64_t clean_seq = 1;  // no entry names a row before this one
  };
  int SweepSome(const IndexMark& mark);
  template <class IsDead>
  int SweepDatabase(unsigned int database, Sweep& sweep, std::uint64_t first_seq, IsDead is_dead);

  // constant after construction
  const std::unique_ptr<LmdbEnv> env_;
  const Databases databases_;

  // owned by the thread that writes
  Sweep keys_sweep_, intents_sweep_;

  // owned by the thread that looks up
  LmdbReadTxn reader_;
  bool is_damaged_ = false;
};

}  // namespace recourse
