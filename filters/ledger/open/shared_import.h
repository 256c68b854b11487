// Brings an embedded ledger into the database of a shared one.
#pragma once

#include <expected>
#include <string>

#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/open/shared.h"
#include "proxy/base/clock.h"

namespace recourse {

struct LedgerImport {
  LmdbLedgerOptions from{};  // with its secrets, which the database's have to be
  SharedLedger to{};
  std::string group{};  // that goes on with what is open in it
};

// With its ids, rows and chain, what is open, keys, flows and approvals. Done again after whatever
// ended it, it goes on; what is there already is there once. From its begin the directory is opened
// by nothing else. Gives a line that says what was done.
std::expected<std::string, Unopened> ImportLedger(LedgerImport import, const Clock& clock);

}  // namespace recourse
