#include "filters/ledger/commit/commit_loop.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse::group_commit {

CommitLoop::CommitLoop(Engine& engine, RequestQueue& queue, const Clock& clock)
    : engine_(engine),
      queue_(queue),
      clock_(clock),
      batch_(engine, clock),
      checkpointer_(engine.index().cold()) {
  // The start could not store it.
  if (engine_.index().frozen()) checkpointer_.Submit(engine_.index().frozen());
  Publish();
}

void CommitLoop::Run() {
  while (WaitForWork()) {
    Process();
    Retire();
  }
  Shutdown();
}

bool CommitLoop::WaitForWork() {
  std::optional<MonoTime> due = batch_.marks_due();
  if (const auto join = batch_.next_join(); join && (!due || *join < *due)) due = join;
  if (retire_due_ && (!due || *retire_due_ < *due)) due = retire_due_;
  return queue_.Take(due, taken_);
}

void CommitLoop::Process() {
  batch_.Expect(taken_.size());
  std::size_t next = 0;
  do {
    while (next < taken_.size() && !engine_.is_batch_full()) {
      std::visit([this](auto request) { batch_.Take(std::move(request)); }, taken_[next]);
      ++next;
    }
    FinishBatch();
  } while (next < taken_.size());
  taken_.clear();
}

// The decisions leave first, so that callers connect while the batch becomes durable.
void CommitLoop::FinishBatch() {
  batch_.PostJobs();
  const bool is_durable = CommitBatch();
  batch_.Complete(is_durable);
  batch_.ExpireJoins();
  Publish();
  batch_.PostJobs();
  batch_.CompleteNotes(is_durable);
  Checkpoint();
}

// True when everything in the batch stands. A batch without rows does not commit.
bool CommitLoop::CommitBatch() {
  if (!batch_.WantsCommit()) return true;
  const std::size_t rows = engine_.batch_rows();
  const MonoTime start = clock_.Now();
  const auto done = engine_.Commit();
  batch_.MarksAreWritten();
  if (done && observer_) {
    observer_(std::chrono::duration<double>(clock_.Now() - start).count(), rows);
  }
  return done.has_value();
}

// One step between two batches, and then a pause of nine times its length: what waits in the queue
// loses a tenth of the time at most; half of it when more comes than leaves, or the log would grow
// without end.
void CommitLoop::Retire() {
  const MonoTime start = clock_.Now();
  const auto rule = queue_.TakeRule(retire_due_, start);
  if (!rule || retire_failed_) return;
  const auto retired = engine_.Retire(*rule);
  const MonoTime end = clock_.Now();
  if (!retired) {
    retire_failed_ = true;
    retire_due_.reset();
    if (!engine_.is_latched()) {
      Log(LogLevel::kError, "old rows of the ledger cannot be read and are kept; run ledger verify",
          {{"reason", std::string(retired.error().detail())}});
    }
  } else if (retired->more) {
    const int pauses = retired->is_late ? limits::kRetireLatePauses : limits::kRetirePauses;
    retire_due_ = end + (end - start) * pauses;
  } else {
    retire_due_ = end + Retirement::Every(*rule);
  }
  Publish();
  Checkpoint();
}

// The next start finds no index and builds it from the events.
void CommitLoop::ClearDamagedIndex() {
  if (index_is_cleared_) return;
  index_is_cleared_ = true;
  checkpointer_.GiveUp();  // its mark must not be written after the clearing
  const auto cleared = engine_.index().cold()->Clear();
  Log(LogLevel::kError, "the key index is damaged; restart to build it anew from the events",
      {{"cleared", cleared ? "yes" : "no: remove the directory index/ before the restart"}});
}

void CommitLoop::Checkpoint() {
  IndexCheckpoints& index = engine_.index();
  if (index.is_damaged()) {
    ClearDamagedIndex();
    return;
  }
  // Waiting here holds new writes back while the index cannot keep up, and bounds its memory.
  if (index.frozen() && index.is_crowded()) (void)checkpointer_.Finish();
  if (index.frozen() && checkpointer_.is_done()) index.FrozenIsStored();
  if (index.WantsFreeze()) checkpointer_.Submit(index.Freeze());
}

void CommitLoop::Shutdown() {
  batch_.EndJoins();
  batch_.PostJobs();
  (void)engine_.Commit();  // the last marks; forgetting them errs towards replay
  IndexCheckpoints& index = engine_.index();
  if (index.cold() == nullptr || engine_.is_latched() || index_is_cleared_) return;
  if (index.frozen()) {
    if (!checkpointer_.Finish()) return;  // the next start reads the rows instead
    index.FrozenIsStored();
  }
  checkpointer_.Submit(index.Freeze());
  (void)checkpointer_.Finish();
}

void CommitLoop::Publish() {
  const LedgerStats stats = engine_.Stats();
  const std::lock_guard lock(mutex_);
  stats_ = stats;
  published_head_ = engine_.head();
}

LedgerStats CommitLoop::Stats() {
  const std::lock_guard lock(mutex_);
  LedgerStats stats = stats_;
  stats.is_index_failing = checkpointer_.is_failing();
  return stats;
}

LogHead CommitLoop::CommittedHead() {
  const std::lock_guard lock(mutex_);
  return published_head_;
}

}  // namespace recourse::group_commit
