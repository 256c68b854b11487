#include "filters/ledger/postgres/upkeep/keeper_thread.h"

#include <algorithm>
#include <chrono>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr Millis kTurnFirst{10};
// The database is shared: most of the time it has nothing to do with this.
constexpr int kTurnPauses = 9;

Millis EveryOf(const LedgerRule& rule) {
  const Millis shorter = std::min(rule.retention, rule.tombstones) / limits::kAgeMarksPerRetention;
  return std::clamp(shorter, Millis(limits::kAgeSpacingMin), Millis(limits::kAgeSpacingMax));
}

}  // namespace

PgKeeperThread::~PgKeeperThread() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PgKeeperThread::SetRule(const LedgerRule& rule) {
  const std::lock_guard lock(mutex_);
  rule_ = rule;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  wake_.notify_all();
}

// False: it is to end.
bool PgKeeperThread::WaitFor(Millis time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [this] { return is_stopping_; });
}

void PgKeeperThread::Run() {
  NameThread("recourse-keeper");
  PgKeeper keeper(of_);
  std::string said;
  for (Millis wait = kTurnFirst; WaitFor(wait);) {
    LedgerRule rule;
    {
      const std::lock_guard lock(mutex_);
      rule = *rule_;
    }
    const MonoTime began = of_.clock.Now();
    const auto done = keeper.Turn(rule, EveryOf(rule));
    const std::string problem = done ? "" : done.error();
    if (!problem.empty() && problem != said) {
      Log(LogLevel::kWarn, "old rows of the ledger's database are kept for now",
          {{"reason", problem}});
    }
    said = problem;
    const auto took = std::chrono::ceil<Millis>(of_.clock.Now() - began);
    wait = done && done->more ? std::max(kTurnFirst, kTurnPauses * took) : EveryOf(rule);
  }
}

}  // namespace recourse
