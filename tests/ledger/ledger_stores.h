// The ledgers that a contract is held against.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse {

enum class Store : std::uint8_t { kMemory, kLmdb, kPostgres };
inline const char* NameOf(Store store) {
  return store == Store::kMemory ? "Memory" : store == Store::kLmdb ? "Lmdb" : "Postgres";
}

// Where a ledger in clear is, so that it can be opened again; one in memory is new each time.
class StoredLedger {
 public:
  explicit StoredLedger(Store store, const std::filesystem::path& parent = FastParent())
      : store_(store), directory_(parent) {}

  // The one before has ended.
  std::unique_ptr<Ledger> Open(const Clock& clock) {
    if (store_ == Store::kMemory) return MakeMemoryLedger(clock);
    if (store_ == Store::kPostgres) {
      if (url_.empty()) url_ = FreshPostgresLedger();
      return OpenTestPostgres(url_, clock);
    }
    auto opened = OpenLmdbLedger(
        {.directory = directory_.data(), .map_bytes = 1U << 30, .unsafe_fs = true}, clock);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error());
    return opened ? std::move(*opened) : nullptr;
  }
  // What it can be made from is not there the next time.
  void DropIndex() const { std::filesystem::remove_all(directory_.data() + "/index"); }
  Store store() const { return store_; }
  bool is_shared() const { return store_ == Store::kPostgres; }
  const std::string& url() const { return url_; }
  const std::string& path() const { return directory_.path(); }
  std::string data() const { return directory_.data(); }

 private:
  const Store store_;
  TempDirectory directory_;
  std::string url_;
};

}  // namespace recourse
