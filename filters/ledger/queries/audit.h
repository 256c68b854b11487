// What auditors need of a ledger: every row with the bytes that the hash chain is made of, and a
// row for what operators order that no other row tells of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/operator_action.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {

struct LoggedRow {
  RowHead head;
  std::string bytes;  // as hashed; what came from requests and answers is sealed in them
  // What people read of it; of other kinds nothing. An event has no answer and no requests.
  std::variant<std::monostate, Event, FlowMoved, PolicyChange, OperatorOrder> told{};
};

// "event", "order", ...
std::string_view NameOf(RowKind kind);

// What a Ledger with a log is, too; one that could not be opened is not. Both verbs are blocking,
// thread-safe and for admin threads.
class LedgerAuditor {
 public:
  virtual ~LedgerAuditor() = default;
  // Durable when it returns. Fails with kLedgerUnavailable or kOverloaded; after 2 s on a disk that
  // hangs, and then its row may still come.
  virtual Result<void> RecordOrder(const OperatorOrder& order) = 0;
  // The rows after `after` and up to `up_to`, in order and without a gap, at most `limit` of them
  // and about kAdminPageBytesMax bytes. Fails when they cannot be read, or when retention has
  // removed the first of them.
  virtual Result<std::vector<LoggedRow>> Rows(std::uint64_t after, std::uint64_t up_to,
                                              std::size_t limit) = 0;
};

// As LedgerAuditor::Rows.
Result<std::vector<LoggedRow>> ListRows(EventLog& log, const SharedKeys& keys, std::uint64_t after,
                                        std::uint64_t up_to, std::size_t limit);

}  // namespace recourse
