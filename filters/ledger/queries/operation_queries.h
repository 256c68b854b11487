// Operations as they are now, newest first: what somebody who watches asks for, page by page.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Operations by what they are now, which their newest events say.
struct OperationFilter {
  std::optional<std::string> trace_id{}, tool{}, flow{}, caller{};
  // The external reference, or the whole value of a field of the kept answer that is no credential.
  std::optional<std::string> value{};
  std::optional<Status> status{};
  std::optional<Phase> phase{};
  std::optional<bool> observed{};  // those that observe mode saw, or those that it did not
  std::function<bool(std::uint64_t row)> is_of{};  // holds of its newest row; empty: of any
  // At most one of them: the newest ones of those whose newest event has a smaller id than
  // `before`, or the oldest ones of those whose newest event has a larger id than `after`. Neither:
  // the newest of all.
  std::optional<std::uint64_t> before{}, after{};
  std::size_t limit = 100;  // at most kOperationsPageMax
};
struct OperationPage {
  std::vector<Event> events{};  // newest first, without answers
  // The rows that were looked at; there may be less than `limit` operations in them, and more
  // beyond them: older ones, before = first; newer ones, after = last.
  std::uint64_t first = 0, last = 0;
  bool older = false, newer = false;  // there are such rows
};

// What a Ledger with a key index is, too; one that could not be opened is not.
class OperationLister {
 public:
  virtual ~OperationLister() = default;
  // For operators, as Ledger::List: blocking, thread-safe. Looks at a bounded number of rows
  // (kOperationsScanRows), however large the log is.
  virtual Result<OperationPage> Operations(const OperationFilter& filter) = 0;
};

// Whether an operation of which that is the newest event, with its answer's fields, is asked for.
bool IsAskedFor(const OperationFilter& filter, const Event& event);

// A row, and the key and the number of its operation.
struct OperationRow {
  Digest key{};
  std::uint64_t operation = 0;
  std::uint64_t row = 0;
};
// For each of the rows: whether its operation has no newer one. One answer per row, in order.
using NewestOf = std::function<Result<std::vector<bool>>(const std::vector<OperationRow>& rows)>;

// As OperationLister::Operations. The log alone cannot tell which rows are the newest of their
// operations; `newest` asks the key index, at most once for each window of rows.
Result<OperationPage> ListOperations(EventLog& log, const SharedKeys& keys,
                                     const OperationFilter& filter, const NewestOf& newest);

}  // namespace recourse
