// The verbs in the queue of GroupCommitLedger; for its own files only.
#pragma once

#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "filters/ledger/engine/group_commit_ledger.h"
#include "proxy/base/limits.h"

namespace recourse {

// Outcomes must find room even when the queue is full of beginnings: an operation whose outcome is
// refused stays unknown.
inline constexpr std::size_t kRecordQueueMax = 2 * limits::kLedgerQueueMax;

// How long an operator's order waits for a disk that may hang: drains and log levels must not.
inline constexpr std::chrono::seconds kOrderWaitMax{2};

inline Error CommitFailed() {
  return Error(ErrorCode::kLedgerUnavailable, "the commit failed; the outcome of it is not known");
}

// What is asked, and its result, stay where they are: they are large.
struct GroupCommitLedger::BeginWait {
  NewOperation& operation;  // of the waiter
  Executor* executor = nullptr;
  Result<Begun> result;
  Promise<bool> done{};
};

struct GroupCommitLedger::RecordWait {
  Transition& transition;  // of the waiter
  Executor* executor = nullptr;
  Result<Event> result;
  Promise<bool> done{};
};

struct GroupCommitLedger::OpenWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Executor* executor = nullptr;
  Result<std::vector<Event>> result;
  Promise<Result<std::vector<Event>>> promise;
};

struct GroupCommitLedger::MoveWait {
  FlowMove move;
  Executor* executor = nullptr;
  Result<FlowState> result;
  Promise<Result<FlowState>> promise;
};

struct GroupCommitLedger::FlowsWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  std::optional<std::pair<std::string, std::string>> named;  // caller and flow: only that one
  Executor* executor = nullptr;
  Result<std::vector<FlowState>> result;
  Promise<Result<std::vector<FlowState>>> promise;
};

struct GroupCommitLedger::DecideWait {
  ApprovalOrder order;
  Executor* executor = nullptr;
  Result<ApprovalOutcome> result;
  Promise<Result<ApprovalOutcome>> promise;
};

struct GroupCommitLedger::ClaimsWait {
  std::uint64_t after = 0;
  std::size_t limit = 0;
  Executor* executor = nullptr;
  Result<std::vector<PendingApproval>> result;
  Promise<Result<std::vector<PendingApproval>>> promise;
};

// Of the queue as well as of the waiter, who may have left.
struct GroupCommitLedger::NoteWait {
  explicit NoteWait(std::variant<PolicyChange, OperatorOrder> what) : note(std::move(what)) {}
  const std::variant<PolicyChange, OperatorOrder> note;
  std::promise<Result<void>> promise;
};

struct GroupCommitLedger::NewestWait {
  const std::vector<OperationRow>& rows;  // of the waiter
  std::promise<Result<std::vector<bool>>> promise;
};

template <class Wait>
void GroupCommitLedger::Complete(Wait* wait) {
  if constexpr (requires { wait->done; }) {
    AddJob(wait->executor, [wait] { wait->done.Set(true); });
  } else {
    AddJob(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
}

}  // namespace recourse
