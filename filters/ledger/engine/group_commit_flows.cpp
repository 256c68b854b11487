// Flows in GroupCommitLedger.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/group_commit_waits.h"
#include "filters/ledger/queries/flow_queries.h"

namespace recourse {

Task<Result<FlowState>> GroupCommitLedger::MoveFlow(FlowMove move, Executor& executor) {
  MoveWait wait{std::move(move), &executor, {}, {}};
  if (auto queued = Submit(&wait, kRecordQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<std::optional<FlowState>>> GroupCommitLedger::FindOpenFlow(std::string caller,
                                                                       std::string flow,
                                                                       Executor& executor) {
  FlowsWait wait{.after = 0,
                 .limit = 1,
                 .named = std::pair(std::move(caller), std::move(flow)),
                 .executor = &executor,
                 .result = {},
                 .promise = {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  auto found = co_await wait.promise.Wait();
  if (!found) co_return std::unexpected(found.error());
  if (found->empty()) co_return std::nullopt;
  co_return std::move(found->front());
}

Task<Result<std::vector<FlowState>>> GroupCommitLedger::Flows(std::uint64_t after,
                                                              std::size_t limit,
                                                              Executor& executor) {
  FlowsWait wait{after, std::min(limit, limits::kAdminPageMax), {}, &executor, {}, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Result<std::optional<FlowState>> GroupCommitLedger::FindFlow(std::uint64_t number) {
  return recourse::FindFlow(engine_->log(), number, ToUnixMillis(clock_.WallNow()));
}

Result<std::vector<FlowState>> GroupCommitLedger::NewestFlows(std::size_t limit) {
  return recourse::NewestFlows(engine_->log(), limit, ToUnixMillis(clock_.WallNow()));
}

void GroupCommitLedger::Take(MoveWait* wait) {
  wait->result = engine_->MoveFlow(wait->move);
  if (wait->result) {
    moves_.push_back(wait);
  } else {
    Complete(wait);
  }
}

// What is not committed yet is not told as if it stood.
void GroupCommitLedger::Take(FlowsWait* wait) { flow_lists_.push_back(wait); }

void GroupCommitLedger::CompleteFlows(bool is_durable) {
  for (MoveWait* wait : moves_) {
    if (!is_durable) wait->result = std::unexpected(CommitFailed());
    Complete(wait);
  }
  moves_.clear();
  for (FlowsWait* wait : flow_lists_) {
    if (engine_->is_latched()) {
      wait->result = std::unexpected(CommitFailed());
    } else if (wait->named) {
      const FlowState* const found = engine_->flows().Find(wait->named->first, wait->named->second);
      wait->result = found == nullptr ? std::vector<FlowState>() : std::vector{*found};
    } else {
      wait->result = engine_->flows().List(wait->after, wait->limit);
    }
    Complete(wait);
  }
  flow_lists_.clear();
}

}  // namespace recourse
