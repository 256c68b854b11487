// Lets the old rows of a group leave a database, and what remembers their calls for no longer than
// tombstones are kept. Rows leave from the front of each stream: what is open, or a step of a flow
// that is not over, holds what stands behind it.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "filters/ledger/postgres/facts.h"
#include "filters/ledger/postgres/pg_values.h"
#include "policy/model/ledger_rules.h"

namespace recourse {

// One thread; blocks.
class PgKeeper {
 public:
  struct Of {
    PgOptions connection;
    std::string group;
    std::shared_ptr<const LedgerKeys> keys;
    const Clock& clock;
    // Set: what is young by its time of day is not removed, whatever the database's clock says,
    // which may have jumped at a failover.
    const Clock* second_clock = nullptr;
  };
  explicit PgKeeper(Of of);

  struct Done {
    std::size_t rows = 0;        // removed
    std::size_t tombstones = 0;  // removed
    bool more = false;           // there may be more to remove now
  };
  // One turn, in one transaction, unless another process has the turn or had it less than `every`
  // ago, or this one's role may not remove rows. Fails with a line for people.
  std::expected<Done, std::string> Turn(const LedgerRule& rule, Millis every);

 private:
  using Asked = std::expected<PgRows, std::string>;

  Asked Ask(const PgStatement& statement, const PgArguments& arguments = {});
  std::expected<void, std::string> Connect();
  std::expected<bool, std::string> Claim();
  void CompareClocks();
  std::expected<Done, std::string> Keep(const LedgerRule& rule);
  std::expected<std::size_t, std::string> Trim(std::uint64_t stream, const LedgerRule& rule);
  std::expected<std::size_t, std::string> Sweep(const LedgerRule& rule);

  const Of of_;
  const std::int64_t turn_;  // number of the work that is the group's turn
  std::unique_ptr<PgConnection> connection_;
  bool may_keep_ = false;    // its role may remove rows
  std::int64_t now_ms_ = 0;  // of this turn
  Millis ahead_{0};          // so far the database's clock is ahead of the second one
  bool is_ahead_told_ = false;
  LocalFacts local_;
  std::uint64_t next_stream_ = 0;   // looked at
  std::optional<Digest> next_key_;  // whose tombstone is looked at
};

}  // namespace recourse
