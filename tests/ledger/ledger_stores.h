// The ledgers that a contract is held against.
#pragma once

#include <gtest/gtest.h>

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

// A new ledger in clear.
inline std::unique_ptr<Ledger> OpenStore(Store store, const TempDirectory& directory,
                                         const Clock& clock) {
  if (store == Store::kMemory) return MakeMemoryLedger(clock);
  if (store == Store::kPostgres) return OpenTestPostgres(FreshPostgresLedger(), clock);
  auto opened = OpenLmdbLedger(
      {.directory = directory.data(), .map_bytes = 1U << 30, .unsafe_fs = true}, clock);
  EXPECT_TRUE(opened) << (opened ? "" : opened.error());
  return opened ? std::move(*opened) : nullptr;
}

}  // namespace recourse
