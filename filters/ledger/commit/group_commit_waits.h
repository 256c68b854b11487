// The verbs in the queue of the ledger with group commit; for its own files only. A verb lives in
// the frame of whoever waits for its promise; a note, whose waiter may leave, is shared.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/engine/join_table.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/operation_queries.h"
#include "proxy/base/limits.h"

namespace recourse::group_commit {

// Outcomes must find room even when the queue is full of beginnings: an operation whose outcome is
// refused stays unknown.
inline constexpr std::size_t kRecordQueueMax = 2 * limits::kLedgerQueueMax;

// How long an operator's order waits for a disk that may hang: drains and log levels must not.
inline constexpr std::chrono::seconds kOrderWaitMax{2};

inline Error CommitFailed() {
  return Error(ErrorCode::kLedgerUnavailable, "the commit failed; the outcome of it is not known");
}

// What is asked, and its result, stay where they are: they are large.
struct BeginWait {
  NewOperation& operation;  // of the waiter
  Executor* executor = nullptr;
  Result<Begun> result = std::unexpected(Error());  // until it is there
  Promise<bool> done{};
};

struct RecordWait {
  Transition& transition;  // of the waiter
  Executor* executor = nullptr;
  Result<Event> result = std::unexpected(Error());
  Promise<bool> done{};
};

struct OpenWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Executor* executor = nullptr;
  Result<std::vector<Event>> result;
  Promise<Result<std::vector<Event>>> promise;
};

struct MoveWait {
  FlowMove move;
  Executor* executor = nullptr;
  Result<FlowState> result;
  Promise<Result<FlowState>> promise;
};

struct FlowsWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  std::optional<std::pair<std::string, std::string>> named;  // caller and flow: only that one
  Executor* executor = nullptr;
  Result<std::vector<FlowState>> result;
  Promise<Result<std::vector<FlowState>>> promise;
};

struct DecideWait {
  ApprovalOrder order;
  Executor* executor = nullptr;
  Result<ApprovalOutcome> result;
  Promise<Result<ApprovalOutcome>> promise;
};

struct ClaimsWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Executor* executor = nullptr;
  Result<std::vector<PendingApproval>> result;
  Promise<Result<std::vector<PendingApproval>>> promise;
};

// Of the queue as well as of the waiter, who may have left.
struct NoteWait {
  explicit NoteWait(std::variant<PolicyChange, OperatorOrder> what) : note(std::move(what)) {}
  const std::variant<PolicyChange, OperatorOrder> note;
  std::promise<Result<void>> promise;
};

struct NewestWait {
  const std::vector<OperationRow>& rows;  // of the waiter
  std::promise<Result<std::vector<bool>>> promise;
};

struct Answered {
  AttemptId attempt;
  MonoTime due{};  // written by then
  bool is_read = true;
};

using Request =
    std::variant<BeginWait*, RecordWait*, JoinWait*, OpenWait*, MoveWait*, FlowsWait*, DecideWait*,
                 ClaimsWait*, std::shared_ptr<NoteWait>, NewestWait*, Answered>;

}  // namespace recourse::group_commit
