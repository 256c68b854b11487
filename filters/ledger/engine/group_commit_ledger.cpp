#include "filters/ledger/engine/group_commit_ledger.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "filters/ledger/engine/group_commit_waits.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/queries/operation_queries.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {

GroupCommitLedger::GroupCommitLedger(std::unique_ptr<LedgerEngine> engine, const Clock& clock)
    : clock_(clock), engine_(std::move(engine)), checkpointer_(engine_->cold()) {
  if (engine_->frozen()) checkpointer_.Submit(engine_->frozen());  // the start could not store it
  Publish();
  thread_ = std::thread([this] { Run(); });
}

GroupCommitLedger::~GroupCommitLedger() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Task<Result<Begun>> GroupCommitLedger::Begin(NewOperation operation, Executor& executor) {
  BeginWait wait{operation, &executor, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<Event>> GroupCommitLedger::Record(Transition transition, Executor& executor) {
  RecordWait wait{transition, &executor, {}};
  if (auto queued = Submit(&wait, kRecordQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::optional<Event>>> GroupCommitLedger::Join(std::uint64_t operation,
                                                           MonoTime deadline, Executor& executor) {
  JoinWait wait{operation, deadline, &executor, {}, false, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<std::vector<Event>>> GroupCommitLedger::Open(std::uint64_t after, std::size_t limit,
                                                         Executor& executor) {
  OpenWait wait{after, std::min(limit, limits::kAdminPageMax), &executor, {}, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

void GroupCommitLedger::MarkAnswered(AttemptId answered) {
  // Nobody waits for it, and what is asked next stands behind it in the queue. A mark that finds no
  // room is forgotten, which errs towards replay.
  const MonoTime due = clock_.Now() + limits::kAnsweredFlush;
  (void)Submit(Answered{answered, due}, limits::kLedgerQueueMax, due);
}

void GroupCommitLedger::MarkUnread(AttemptId answered) {
  (void)Submit(Answered{answered, clock_.Now(), /*is_read=*/false}, kRecordQueueMax);
}

Result<void> GroupCommitLedger::RecordPolicy(const PolicyChange& change) {
  auto wait = std::make_shared<NoteWait>(change);
  auto done = wait->promise.get_future();
  if (auto queued = Submit(std::move(wait), kRecordQueueMax); !queued) return queued;
  return done.get();
}

Result<void> GroupCommitLedger::RecordOrder(const OperatorOrder& order) {
  auto wait = std::make_shared<NoteWait>(order);
  auto done = wait->promise.get_future();
  if (auto queued = Submit(std::move(wait), kRecordQueueMax); !queued) return queued;
  if (done.wait_for(kOrderWaitMax) == std::future_status::ready) return done.get();
  return std::unexpected(
      Error(ErrorCode::kLedgerUnavailable,
            "the disk has not confirmed its row for 2 s; the row is there once it does"));
}

Result<std::vector<LoggedRow>> GroupCommitLedger::Rows(std::uint64_t after, std::uint64_t up_to,
                                                       std::size_t limit) {
  return ListRows(engine_->log(), engine_->keys(), after, up_to, limit);
}

Result<EventPage> GroupCommitLedger::List(const EventFilter& filter) {
  return ListEvents(engine_->log(), engine_->keys(), filter);
}

Result<std::optional<Event>> GroupCommitLedger::Find(std::uint64_t id) {
  return FindEvent(engine_->log(), engine_->keys(), id);
}

VerifyReport GroupCommitLedger::Verify() {
  LogHead head;
  {
    const std::lock_guard lock(mutex_);
    head = published_head_;
  }
  return VerifyLog(engine_->log(), engine_->keys(), head.seq, head.hash);
}

Result<OperationPage> GroupCommitLedger::Operations(const OperationFilter& filter) {
  const auto newest = [this](const std::vector<OperationRow>& rows) -> Result<std::vector<bool>> {
    NewestWait wait{rows, {}};
    auto done = wait.promise.get_future();
    if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
      return std::unexpected(queued.error());
    }
    return done.get();
  };
  return ListOperations(engine_->log(), engine_->keys(), filter, newest);
}

LedgerStats GroupCommitLedger::Stats() {
  const LogSizes sizes = engine_->log().sizes();
  const std::lock_guard lock(mutex_);
  LedgerStats stats = stats_;
  stats.used_bytes = sizes.used_bytes;
  stats.map_bytes = sizes.map_bytes;
  stats.restored = engine_->is_restored();
  stats.is_index_failing = checkpointer_.is_failing();
  stats.is_index_rebuilt = engine_->is_index_rebuilt();
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
  observer_ = std::move(observer);
}

void GroupCommitLedger::SetRule(const LedgerRule& rule) {
  {
    const std::lock_guard lock(mutex_);
    rule_ = rule;
    rule_is_new_ = true;
  }
  wake_.notify_one();
}

Result<void> GroupCommitLedger::Submit(Request request, std::size_t queue_max, MonoTime by) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) {
      return std::unexpected(
          Error(ErrorCode::kLedgerUnavailable, "the ledger is closing", Delivery::kNotSent));
    }
    if (queue_.size() >= queue_max) {
      return std::unexpected(
          Error(ErrorCode::kOverloaded, "the ledger's queue is full", Delivery::kNotSent));
    }
    queue_.push_back(std::move(request));
    if (wakes_at_ <= by) return {};
    wakes_at_ = MonoTime::min();
  }
  wake_.notify_one();
  return {};
}

void GroupCommitLedger::Run() {
  NameThread("recourse-writer");
  while (WaitForWork()) {
    Process();
    Retire();
  }
  Shutdown();
}

// Takes the whole queue. False: stopping, and nothing is left.
bool GroupCommitLedger::WaitForWork() {
  std::optional<MonoTime> due = marks_due_;
  if (const auto join = joins_.earliest(); join && (!due || *join < *due)) due = join;
  if (retire_due_ && (!due || *retire_due_ < *due)) due = retire_due_;
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return is_stopping_ || rule_is_new_ || !queue_.empty(); };
  wakes_at_ = due.value_or(MonoTime::max());
  if (due) {
    // The injected clock says how long; waking early does no harm, so real time may serve.
    wake_.wait_for(lock, std::max(*due - clock_.Now(), MonoTime::duration::zero()), has_work);
  } else {
    wake_.wait(lock, has_work);
  }
  wakes_at_ = MonoTime::min();
  std::swap(taken_, queue_);
  return !is_stopping_ || !taken_.empty();
}

void GroupCommitLedger::Process() {
  std::size_t next = 0;
  do {
    while (next < taken_.size() && !engine_->is_batch_full()) {
      std::visit([this](auto request) { Take(std::move(request)); }, taken_[next]);
      ++next;
    }
    FinishBatch();
  } while (next < taken_.size());
  taken_.clear();
}

void GroupCommitLedger::Take(BeginWait* wait) {
  auto step = engine_->Begin(wait->operation);
  if (!step) {
    wait->result = std::unexpected(step.error());
    Complete(wait);
    return;
  }
  if (step->load_after_commit != 0) {
    wait->result = std::move(step->begun);
    late_begins_.push_back({wait, step->load_after_commit});
    return;
  }
  if (step->is_new) {
    step->begun.commit = std::make_shared<PendingCommit>();
    durables_.push_back({wait->executor, step->begun.commit});
  }
  wait->result = std::move(step->begun);
  Complete(wait);
}

void GroupCommitLedger::Take(RecordWait* wait) {
  wait->result = engine_->Record(wait->transition);
  if (wait->result) {
    records_.push_back(wait);
  } else {
    Complete(wait);
  }
}

void GroupCommitLedger::Take(JoinWait* wait) { new_joins_.push_back(wait); }
void GroupCommitLedger::Take(OpenWait* wait) { opens_.push_back(wait); }
void GroupCommitLedger::Take(NewestWait* wait) { newest_.push_back(wait); }

void GroupCommitLedger::Take(std::shared_ptr<NoteWait> wait) {
  const auto* const change = std::get_if<PolicyChange>(&wait->note);
  const auto noted = change != nullptr ? engine_->RecordPolicy(*change)
                                       : engine_->RecordOrder(std::get<OperatorOrder>(wait->note));
  if (!noted) {
    wait->promise.set_value(noted);
  } else {
    notes_.push_back(std::move(wait));
  }
}

void GroupCommitLedger::Take(Answered answered) {
  answered.is_read ? engine_->MarkAnswered(answered.attempt)
                   : engine_->MarkUnread(answered.attempt);
  if (engine_->has_marks() && !marks_due_) marks_due_ = answered.due;
}

// The decisions leave first, so that callers connect while the batch becomes durable.
void GroupCommitLedger::FinishBatch() {
  PostJobs();
  const bool is_durable = CommitBatch();
  CompleteBatch(is_durable);
  ExpireJoins();
  Publish();
  PostJobs();
  for (const std::shared_ptr<NoteWait>& wait : notes_) {
    wait->promise.set_value(is_durable ? Result<void>() : std::unexpected(CommitFailed()));
  }
  notes_.clear();
  Checkpoint();
}

// True when everything in the batch stands. A batch without rows does not commit.
bool GroupCommitLedger::CommitBatch() {
  const bool marks_are_due = marks_due_ && *marks_due_ <= clock_.Now();
  const std::size_t rows = engine_->batch_rows();
  if (rows == 0 && !marks_are_due) return true;
  const MonoTime start = clock_.Now();
  const auto done = engine_->Commit();
  marks_due_.reset();
  if (done && observer_) {
    observer_(std::chrono::duration<double>(clock_.Now() - start).count(), rows);
  }
  return done.has_value();
}

void GroupCommitLedger::CompleteBatch(bool is_durable) {
  for (Durable& durable : durables_) {
    if (is_durable) {
      AddJob(durable.executor, [commit = std::move(durable.commit)] { commit->Complete({}); });
    } else {
      AddJob(durable.executor, [commit = std::move(durable.commit)] {
        commit->Complete(std::unexpected(CommitFailed()));
      });
    }
  }
  durables_.clear();
  for (RecordWait* wait : records_) {
    const std::uint64_t operation = wait->transition.operation;
    if (!is_durable) wait->result = std::unexpected(CommitFailed());
    Complete(wait);
    CompleteJoinsOf(operation);
  }
  records_.clear();
  CompleteFlows(is_durable);
  CompleteApprovals(is_durable);
  for (const LateBegin& late : late_begins_) CompleteLateBegin(late, is_durable);
  late_begins_.clear();
  for (JoinWait* wait : new_joins_) StartJoin(wait);
  new_joins_.clear();
  for (OpenWait* wait : opens_) {
    wait->result = engine_->Open(wait->after, wait->limit);
    Complete(wait);
  }
  opens_.clear();
  for (NewestWait* wait : newest_) {
    auto newest = engine_->AreNewest(wait->rows);
    auto promise = std::move(wait->promise);  // the waiter's frame may be gone before this returns
    promise.set_value(std::move(newest));
  }
  newest_.clear();
  if (engine_->is_latched()) {
    // No operation that runs can ever end in this process.
    for (JoinWait* wait : joins_.TakeAll()) {
      wait->result = std::unexpected(CommitFailed());
      Complete(wait);
    }
  }
}

void GroupCommitLedger::CompleteLateBegin(const LateBegin& late, bool is_durable) {
  BeginWait* const wait = late.wait;
  if (!is_durable) {
    // What it was going to be told does not stand. Asked anew, the engine, which is latched now,
    // says what is left to say.
    auto step = engine_->Begin(wait->operation);
    if (step) {
      wait->result = std::move(step->begun);
    } else {
      wait->result = std::unexpected(step.error());
    }
  } else if (auto event = engine_->Load(late.seq)) {
    wait->result->event = std::move(*event);
  } else {
    wait->result = std::unexpected(event.error());
  }
  Complete(wait);
}

void GroupCommitLedger::CompleteJoinsOf(std::uint64_t operation) {
  if (!joins_.Has(operation)) return;
  const auto state = engine_->StateOf(operation);
  if (state && IsAwaited(state->phase)) return;
  // Its answer may be large, and many may wait for it: each gets its copy when it is its turn.
  const auto shared = std::make_shared<const Result<Event>>(state ? engine_->Load(state->last_event)
                                                                  : std::unexpected(state.error()));
  for (JoinWait* wait : joins_.TakeOperation(operation)) {
    AddJob(wait->executor,
           [wait, shared] { wait->promise.Set(Result<std::optional<Event>>(*shared)); });
  }
}

void GroupCommitLedger::StartJoin(JoinWait* wait) {
  const auto state = engine_->StateOf(wait->operation);
  if (!state) {
    wait->result = std::unexpected(state.error());
  } else if (wait->reads || !IsAwaited(state->phase)) {
    auto event = engine_->Load(state->last_event);
    if (event) {
      wait->result = std::move(*event);
    } else {
      wait->result = std::unexpected(event.error());
    }
  } else if (wait->deadline > clock_.Now() && joins_.Add(*wait)) {
    return;
  } else {
    wait->result = std::nullopt;
  }
  Complete(wait);
}

void GroupCommitLedger::ExpireJoins() {
  if (!joins_.earliest()) return;
  for (JoinWait* wait : joins_.TakeExpired(clock_.Now())) {
    wait->result = std::nullopt;
    Complete(wait);
  }
}

// One step between two batches, and then a pause of nine times its length: what waits in the queue
// loses a tenth of the time at most; half of it when more comes than leaves, or the log would grow
// without end.
void GroupCommitLedger::Retire() {
  const MonoTime start = clock_.Now();
  LedgerRule rule;
  {
    const std::lock_guard lock(mutex_);
    const bool is_new = std::exchange(rule_is_new_, false);  // or it would count as work for ever
    if (!rule_ || is_stopping_ || retire_failed_) return;
    if (!is_new && retire_due_ && start < *retire_due_) return;
    rule = *rule_;
  }
  const auto retired = engine_->Retire(rule);
  const MonoTime end = clock_.Now();
  if (!retired) {
    retire_failed_ = true;
    retire_due_.reset();
    if (!engine_->is_latched()) {
      Log(LogLevel::kError, "old rows of the ledger cannot be read and are kept; run ledger verify",
          {{"reason", std::string(retired.error().detail())}});
    }
  } else if (retired->more) {
    const int pauses = retired->is_late ? limits::kRetireLatePauses : limits::kRetirePauses;
    retire_due_ = end + (end - start) * pauses;
  } else {
    retire_due_ = end + LedgerEngine::RetireEvery(rule);
  }
  Publish();
  Checkpoint();
}

// The next start finds no index and builds it from the events.
void GroupCommitLedger::ClearDamagedIndex() {
  if (index_is_cleared_) return;
  index_is_cleared_ = true;
  checkpointer_.GiveUp();  // its mark must not be written after the clearing
  const auto cleared = engine_->cold()->Clear();
  Log(LogLevel::kError, "the key index is damaged; restart to build it anew from the events",
      {{"cleared", cleared ? "yes" : "no: remove the directory index/ before the restart"}});
}

void GroupCommitLedger::Checkpoint() {
  if (engine_->is_index_damaged()) {
    ClearDamagedIndex();
    return;
  }
  // Waiting here holds new writes back while the index cannot keep up, and bounds its memory.
  if (engine_->frozen() && engine_->is_crowded()) (void)checkpointer_.Finish();
  if (engine_->frozen() && checkpointer_.is_done()) engine_->FrozenIsStored();
  if (engine_->WantsFreeze()) checkpointer_.Submit(engine_->Freeze());
}

void GroupCommitLedger::Shutdown() {
  for (JoinWait* wait : joins_.TakeAll()) {
    wait->result = std::nullopt;
    Complete(wait);
  }
  PostJobs();
  (void)engine_->Commit();  // the last marks; forgetting them errs towards replay
  if (engine_->cold() == nullptr || engine_->is_latched() || index_is_cleared_) return;
  if (engine_->frozen()) {
    if (!checkpointer_.Finish()) return;  // the next start reads the rows instead
    engine_->FrozenIsStored();
  }
  checkpointer_.Submit(engine_->Freeze());
  (void)checkpointer_.Finish();
}

void GroupCommitLedger::AddJob(Executor* executor, Job job) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [executor](const auto& entry) {
    return entry.first == executor;
  });
  const bool is_new = found == jobs_.end();
  auto& jobs = is_new ? jobs_.emplace_back(executor, 0).second : found->second;
  if (is_new) jobs.reserve(std::min(taken_.size(), limits::kCommitBatchMax));
  jobs.push_back(std::move(job));
}

// One Post per executor and batch: it wakes a thread.
void GroupCommitLedger::PostJobs() {
  for (auto& [executor, jobs] : jobs_) {
    executor->Post(std::move(jobs));
  }
  jobs_.clear();
}

void GroupCommitLedger::Publish() {
  const LedgerStats stats = engine_->Stats();
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  published_head_ = engine_->head();
}

}  // namespace recourse
