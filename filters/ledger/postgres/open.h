// Opens the ledger in a database.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/store.h"

namespace recourse {

// Who keeps what is remembered no longer than a rule says.
class PgRuleTaker {
 public:
  virtual ~PgRuleTaker() = default;
  virtual void SetRule(const LedgerRule& rule) = 0;
};

struct PgLedgerOptions {
  PgStoreOptions store{};
  std::shared_ptr<const LedgerKeys> keys{};  // null: rows are written in clear
  // So long a call waits that cannot begin because the database is away.
  Millis wait{2'000};
  // While it is, so much of answers waits in memory to be written; what has no room is forgotten,
  // as an answer that is too large. What became of the call is not.
  std::size_t kept_bytes_max = 64U << 20;
  std::shared_ptr<PgRuleTaker> keeper{};  // null: nothing is ever removed
  bool observes = false;  // it sends nothing of its own, and so takes over what was observed alone
};

// `clock` outlives it.
std::expected<std::unique_ptr<Ledger>, Unopened> OpenPostgresLedger(PgLedgerOptions options,
                                                                    const Clock& clock);

}  // namespace recourse
