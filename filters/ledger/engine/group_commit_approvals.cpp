// Approvals in GroupCommitLedger.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/group_commit_waits.h"

namespace recourse {

Task<Result<Event>> GroupCommitLedger::Read(std::uint64_t operation, Executor& executor) {
  JoinWait wait{operation, MonoTime(), &executor, {}, true, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  auto read = co_await wait.promise.Wait();
  if (!read) co_return std::unexpected(read.error());
  if (!*read) co_return std::unexpected(CommitFailed());
  co_return std::move(**read);
}

Task<Result<ApprovalOutcome>> GroupCommitLedger::Decide(ApprovalOrder order, Executor& executor) {
  DecideWait wait{std::move(order), &executor, {}, {}};
  if (auto queued = Submit(&wait, kRecordQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<std::vector<PendingApproval>>> GroupCommitLedger::Claims(std::uint64_t after,
                                                                     std::size_t limit,
                                                                     Executor& executor) {
  ClaimsWait wait{after, std::min(limit, limits::kAdminPageMax), &executor, {}, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

void GroupCommitLedger::Take(DecideWait* wait) {
  wait->result = engine_->Decide(wait->order);
  if (wait->result) {
    decisions_.push_back(wait);
  } else {
    Complete(wait);
  }
}

void GroupCommitLedger::Take(ClaimsWait* wait) { claim_lists_.push_back(wait); }

void GroupCommitLedger::CompleteApprovals(bool is_durable) {
  for (DecideWait* wait : decisions_) {
    if (!is_durable) wait->result = std::unexpected(CommitFailed());
    Complete(wait);
  }
  decisions_.clear();
  for (ClaimsWait* wait : claim_lists_) {
    wait->result = engine_->Claims(wait->after, wait->limit);
    Complete(wait);
  }
  claim_lists_.clear();
  for (const std::uint64_t operation : engine_->TakeEndedClaims()) CompleteJoinsOf(operation);
}

}  // namespace recourse
