// The embedded ledger: one directory, held by one process.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {

using LedgerSecretsOf =
    std::function<std::expected<LedgerSecrets, std::string>(const LedgerFacts&)>;

// Opens or creates the ledger in `directory` (created with mode 0700). Runs recovery: lock, check
// of the file's pages and of the tail of the hash chain, new epoch, DISPATCHING -> UNCERTAIN (cause
// crash), key index. A file that is there is never replaced by a new one, whatever is in it.
// Fails with one line for people that says what is wrong and what to do.
// Rows in a directory that never held this ledger, or fewer than its index knows, were restored
// from a backup: then new operations are refused until AcceptRestored.
struct LmdbLedgerOptions {
  std::string directory;
  std::uint64_t map_bytes = std::uint64_t{64} << 30;  // address space, not disk
  bool unsafe_fs = false;                             // accept every file system
  ExpectedLedger expected{};
  // Asked for as long as another process holds the directory, which `why` says, whether to try once
  // more; it waits a little first. Unset: no.
  std::function<bool(const std::string& why)> try_again{};
  // Asked once, when the log can be read and before anything is written. Unset: rows are written in
  // clear, as tests of old ledgers need it.
  LedgerSecretsOf secrets{};
  // The identity of the shared ledger that it is imported into, in hex, and whether that takes it,
  // asked last: the directory is marked then, and opened for that import only from then on. Never
  // made where it is not there.
  std::string moves_to{};
  std::function<std::expected<void, std::string>(EventLog& log)> is_taken{};
};
std::expected<std::unique_ptr<Ledger>, std::string> OpenLmdbLedger(const LmdbLedgerOptions& options,
                                                                   const Clock& clock);

// Whether one was made there, whatever is wrong with it.
bool HasLedger(const std::string& directory);

}  // namespace recourse
