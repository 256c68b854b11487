// The rows of a shared ledger for auditors, who have its database and need none of its processes.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/open/shared.h"
#include "filters/ledger/postgres/upkeep/audit.h"
#include "filters/ledger/postgres/upkeep/table_check.h"
#include "filters/ledger/queries/audit.h"

namespace recourse {

using SharedStream = PgStream;

// One thread; blocks. All that fails does so with a line for people.
class SharedAudit {
 public:
  // Why there is nothing to audit.
  struct Unaudited {
    std::string why;
    bool is_away = false;  // nobody could look; else the tables are of no ledger that is known
  };
  // Without keys no seal is opened.
  static std::expected<std::unique_ptr<SharedAudit>, Unaudited> Open(const SharedLedger& ledger,
                                                                     SharedKeys keys);

  const Digest& identity() const { return identity_; }
  // As they were at Open.
  const std::vector<SharedStream>& streams() const { return streams_; }
  VerifyReport Verify(const SharedStream& stream);
  // As CheckPgTables.
  std::expected<std::string, std::string> CheckTables();
  // As PgStreamGaps.
  std::expected<std::vector<std::uint64_t>, std::string> Gaps();
  // Where its rows begin.
  std::expected<LogBase, std::string> BaseOf(const SharedStream& stream);
  // The rows of that stream after `after`, as ListRows.
  std::expected<std::vector<LoggedRow>, std::string> Rows(const SharedStream& stream,
                                                          std::uint64_t after, std::size_t limit);

 private:
  SharedAudit(PgOptions options, SharedKeys keys)
      : reader_(std::move(options)), keys_(std::move(keys)) {}
  PgReader reader_;
  const SharedKeys keys_;
  Digest identity_{};
  std::vector<SharedStream> streams_;
};

}  // namespace recourse
