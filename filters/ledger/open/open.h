// Opens a ledger by its address. This room alone knows every store; to all others a ledger is a
// Ledger.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/unopened.h"
#include "policy/model/ledger_rules.h"
#include "policy/uri/ledger_url.h"

namespace recourse {

struct OpenOptions {
  LmdbLedgerOptions embedded{};  // its directory is the url's; `secrets` holds for every store
  LedgerPlace place{};           // of a shared one, beside its url
  std::string pod{};             // for people who look at a shared one
  bool observes = false;         // the process; it takes no other's work in a shared one
  // Stands between a ledger and its rows, from the first one on; not of a shared one.
  std::function<std::unique_ptr<EventLog>(std::unique_ptr<EventLog>)> log{};
};

// `clock` outlives the ledger.
std::expected<std::unique_ptr<Ledger>, Unopened> OpenLedger(const LedgerUrl& url,
                                                            OpenOptions options,
                                                            const Clock& clock);

}  // namespace recourse
