#include "filters/ledger/commit/group_commit_ledger.h"

#include <algorithm>
#include <future>
#include <utility>

#include "proxy/base/limits.h"
#include "proxy/base/thread_name.h"

namespace recourse {

using group_commit::Answered;
using group_commit::BeginWait;
using group_commit::ClaimsWait;
using group_commit::CommitFailed;
using group_commit::DecideWait;
using group_commit::FlowsWait;
using group_commit::kOrderWaitMax;
using group_commit::kRecordQueueMax;
using group_commit::MoveWait;
using group_commit::NewestWait;
using group_commit::NoteWait;
using group_commit::OpenWait;
using group_commit::RecordWait;

GroupCommitLedger::GroupCommitLedger(std::unique_ptr<Engine> engine, const Clock& clock)
    : LoggedLedger(std::move(engine), clock), queue_(clock), loop_(*engine_, queue_, clock) {
  thread_ = std::thread([this] {
    NameThread("recourse-writer");
    loop_.Run();
  });
}

GroupCommitLedger::~GroupCommitLedger() {
  queue_.Stop();
  thread_.join();
}

Task<Result<Begun>> GroupCommitLedger::Begin(NewOperation operation, Executor& executor) {
  BeginWait wait{.operation = operation, .executor = &executor};
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<Event>> GroupCommitLedger::Record(Transition transition, Executor& executor) {
  RecordWait wait{.transition = transition, .executor = &executor};
  if (auto queued = queue_.Submit(&wait, kRecordQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::optional<Event>>> GroupCommitLedger::Join(std::uint64_t operation,
                                                           MonoTime deadline, Executor& executor) {
  JoinWait wait{operation, deadline, &executor, {}, false, {}};
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<std::vector<Event>>> GroupCommitLedger::Open(std::uint64_t after, std::size_t limit,
                                                         Executor& executor) {
  OpenWait wait{after, std::min(limit, limits::kAdminPageMax), &executor, {}, {}};
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

void GroupCommitLedger::MarkAnswered(AttemptId answered) {
  // Nobody waits for it, and what is asked next stands behind it in the queue. A mark that finds no
  // room is forgotten, which errs towards replay.
  const MonoTime due = clock_.Now() + limits::kAnsweredFlush;
  (void)queue_.Submit(Answered{answered, due}, limits::kLedgerQueueMax, due);
}

void GroupCommitLedger::MarkUnread(AttemptId answered) {
  (void)queue_.Submit(Answered{answered, clock_.Now(), /*is_read=*/false}, kRecordQueueMax);
}

Result<void> GroupCommitLedger::RecordPolicy(const PolicyChange& change) {
  auto wait = std::make_shared<NoteWait>(change);
  auto done = wait->promise.get_future();
  if (auto queued = queue_.Submit(std::move(wait), kRecordQueueMax); !queued) return queued;
  return done.get();
}

Result<void> GroupCommitLedger::RecordOrder(const OperatorOrder& order) {
  auto wait = std::make_shared<NoteWait>(order);
  auto done = wait->promise.get_future();
  if (auto queued = queue_.Submit(std::move(wait), kRecordQueueMax); !queued) return queued;
  if (done.wait_for(kOrderWaitMax) == std::future_status::ready) return done.get();
  return std::unexpected(
      Error(ErrorCode::kLedgerUnavailable,
            "the disk has not confirmed its row for 2 s; the row is there once it does"));
}

Task<Result<FlowState>> GroupCommitLedger::MoveFlow(FlowMove move, Executor& executor) {
  MoveWait wait{std::move(move), &executor, {}, {}};
  if (auto queued = queue_.Submit(&wait, kRecordQueueMax); !queued) {
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
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
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
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<Event>> GroupCommitLedger::Read(std::uint64_t operation, Executor& executor) {
  JoinWait wait{operation, MonoTime(), &executor, {}, true, {}};
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  auto read = co_await wait.promise.Wait();
  if (!read) co_return std::unexpected(read.error());
  if (!*read) co_return std::unexpected(CommitFailed());
  co_return std::move(**read);
}

Task<Result<ApprovalOutcome>> GroupCommitLedger::Decide(ApprovalOrder order, Executor& executor) {
  DecideWait wait{std::move(order), &executor, {}, {}};
  if (auto queued = queue_.Submit(&wait, kRecordQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<std::vector<PendingApproval>>> GroupCommitLedger::Claims(std::uint64_t after,
                                                                     std::size_t limit,
                                                                     Executor& executor) {
  ClaimsWait wait{after, std::min(limit, limits::kAdminPageMax), &executor, {}, {}};
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Result<std::vector<bool>> GroupCommitLedger::AreNewest(const std::vector<OperationRow>& rows) {
  NewestWait wait{rows, {}};
  auto done = wait.promise.get_future();
  if (auto queued = queue_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    return std::unexpected(queued.error());
  }
  return done.get();
}

LogHead GroupCommitLedger::CommittedHead() { return loop_.CommittedHead(); }

LedgerStats GroupCommitLedger::Stats() {
  const LogSizes sizes = engine_->log().sizes();
  LedgerStats stats = loop_.Stats();
  stats.used_bytes = sizes.used_bytes;
  stats.map_bytes = sizes.map_bytes;
  stats.restored = engine_->is_restored();
  stats.is_index_rebuilt = engine_->index().is_rebuilt();
  stats.latched = stats.latched || engine_->log().has_failed();
  return stats;
}

std::expected<std::unique_ptr<LedgerCopy>, std::string> GroupCommitLedger::StartCopy() {
  return engine_->log().StartCopy();
}

std::expected<void, std::string> GroupCommitLedger::AcceptRestoredBackup() {
  return engine_->AcceptRestoredBackup();
}

void GroupCommitLedger::OnCommit(std::function<void(double seconds, std::size_t rows)> observer) {
  loop_.OnCommit(std::move(observer));
}

void GroupCommitLedger::SetRule(const LedgerRule& rule) { queue_.SetRule(rule); }

}  // namespace recourse
