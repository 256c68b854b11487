#include "filters/ledger/postgres/upkeep/keeper_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/operators_ledger.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr Millis kTurnFirst{10};
// The database is shared: most of the time it has nothing to do with this.
constexpr int kTurnPauses = 9;

// Empty: all is as it should be.
std::string ProblemOf(const KeptRows& kept) {
  if (kept.nobody_removes) {
    return "no pod of the group that may remove them has had its turn: give the role of one "
           "the task keeper (recourse ledger grant)";
  }
  if (kept.behind.empty()) return "";
  const KeptRows::Behind& oldest = kept.behind.front();
  return fmt::format("they stand behind row {}, which is open; recourse status tells of them",
                     PrintRowId(oldest.row));
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
  PgReader reader(of_.connection);
  std::string said;
  for (Millis wait = kTurnFirst; WaitFor(wait);) {
    LedgerRule rule;
    {
      const std::lock_guard lock(mutex_);
      rule = *rule_;
    }
    const MonoTime began = of_.clock.Now();
    const auto done = keeper.Turn(rule, KeeperEvery(rule));
    std::string problem = done ? "" : done.error();
    if (done && done->rows == 0) {
      if (const auto kept = ReadPgKeptRows(reader, of_.group, rule)) problem = ProblemOf(*kept);
    }
    if (!problem.empty() && problem != said) {
      Log(LogLevel::kWarn, "old rows of the ledger's database are kept for now",
          {{"reason", problem}});
    }
    said = problem;
    const auto took = std::chrono::ceil<Millis>(of_.clock.Now() - began);
    wait = done && done->more ? std::max(kTurnFirst, kTurnPauses * took) : KeeperEvery(rule);
  }
}

}  // namespace recourse
