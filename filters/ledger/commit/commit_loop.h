// The ledger's thread: takes verbs, commits a batch of them, forgets what is old and stores the
// index.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "filters/ledger/commit/request_queue.h"
#include "filters/ledger/commit/verb_batch.h"
#include "filters/ledger/engine/engine.h"
#include "filters/ledger/index/checkpointer.h"

namespace recourse::group_commit {

class CommitLoop {
 public:
  CommitLoop(Engine& engine, RequestQueue& queue, const Clock& clock);

  // Before Run().
  void OnCommit(std::function<void(double, std::size_t)> observer) {
    observer_ = std::move(observer);
  }
  // Until the queue is stopped and empty; then writes the last marks and the index.
  void Run();

  // Both as after the last batch. Thread-safe.
  LedgerStats Stats();
  LogHead CommittedHead();

 private:
  bool WaitForWork();
  void Process();
  void FinishBatch();
  bool CommitBatch();
  void Retire();
  void Checkpoint();
  void ClearDamagedIndex();
  void Shutdown();
  void Publish();

  Engine& engine_;
  RequestQueue& queue_;
  const Clock& clock_;
  std::function<void(double, std::size_t)> observer_;
  VerbBatch batch_;
  std::vector<Request> taken_;
  std::optional<MonoTime> retire_due_;
  bool retire_failed_ = false;  // rows that cannot be read are not looked at again
  bool index_is_cleared_ = false;
  Checkpointer checkpointer_;

  std::mutex mutex_;
  LedgerStats stats_;       // guarded by mutex_
  LogHead published_head_;  // guarded by mutex_
};

}  // namespace recourse::group_commit
