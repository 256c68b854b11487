// What waits for the lane beside its verbs.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/operator_action.h"

namespace recourse {

inline Error PgAway() {
  return Error(ErrorCode::kLedgerUnavailable, "the ledger's database does not answer",
               Delivery::kNotSent);
}

template <class Given>
struct PgPageWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Executor* executor = nullptr;
  Result<std::vector<Given>> result{};
  Promise<bool> done{};
};
struct PgEventsWait : PgPageWait<Event> {};
struct PgClaimsWait : PgPageWait<PendingApproval> {};
struct PgFlowsWait : PgPageWait<FlowState> {
  std::optional<Digest> named{};  // only that one
};
using PgListWait = std::variant<PgEventsWait*, PgClaimsWait*, PgFlowsWait*>;

// Of the queue as well as of the waiter, who may have left.
struct PgNoteWait {
  explicit PgNoteWait(std::variant<PolicyChange, OperatorOrder> what) : note(std::move(what)) {}
  const std::variant<PolicyChange, OperatorOrder> note;
  std::promise<Result<void>> promise{};
};

struct PgAnswered {
  AttemptId attempt;
  bool is_read = true;
};

}  // namespace recourse
