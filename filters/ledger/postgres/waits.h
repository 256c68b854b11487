// What waits in the queue of PostgresLedger beside its verbs; for its own files only.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "filters/ledger/postgres/postgres_ledger.h"
#include "proxy/base/limits.h"

namespace recourse {

// Outcomes must find room even when the queue is full of beginnings.
inline constexpr std::size_t kPgRecordQueueMax = 2 * limits::kLedgerQueueMax;
inline constexpr std::chrono::seconds kPgOrderWaitMax{2};

inline Error PgAway() {
  return Error(ErrorCode::kLedgerUnavailable, "the ledger's database does not answer",
               Delivery::kNotSent);
}

// The executor of a list, and what it gives.
template <class Given>
struct PgListWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Executor* executor = nullptr;
  Result<std::vector<Given>> result{};
  Promise<bool> done{};
};
struct PostgresLedger::EventsWait : PgListWait<Event> {};
struct PostgresLedger::ClaimsWait : PgListWait<PendingApproval> {};
struct PostgresLedger::FlowsWait : PgListWait<FlowState> {
  std::optional<Digest> named{};  // only that one
};
// Of the queue as well as of the waiter, who may have left.
struct PostgresLedger::NoteWait {
  explicit NoteWait(std::variant<PolicyChange, OperatorOrder> what) : note(std::move(what)) {}
  const std::variant<PolicyChange, OperatorOrder> note;
  std::promise<Result<void>> promise{};
};

}  // namespace recourse
