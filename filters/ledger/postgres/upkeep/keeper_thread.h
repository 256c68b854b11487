// The thread of a process that has its turns at keeping what its group remembers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/upkeep/keeper.h"

namespace recourse {

class PgKeeperThread final : public PgRuleTaker {
 public:
  explicit PgKeeperThread(PgKeeper::Of of) : of_(std::move(of)) {}
  ~PgKeeperThread() override;

  // Thread-safe. The first one starts it.
  void SetRule(const LedgerRule& rule) override;

 private:
  void Run();
  bool WaitFor(Millis time);

  const PgKeeper::Of of_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false;          // guarded by mutex_
  std::optional<LedgerRule> rule_{};  // guarded by mutex_
  std::thread thread_;
};

}  // namespace recourse
