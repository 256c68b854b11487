// The ledger without a thread: every verb decides and completes inside the call.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "filters/ledger/join_table.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/ledger_engine.h"

namespace recourse {

class MemoryLedger final : public Ledger {
 public:
  // `engine` has been started (recovery.h). `clock` outlives the ledger.
  MemoryLedger(std::unique_ptr<LedgerEngine> engine, const Clock& clock);
  // Joins that still wait get nullopt.
  ~MemoryLedger() override;

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override;
  Task<Result<Event>> Record(Transition transition, Executor& executor) override;
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override;
  void MarkAnswered(std::uint64_t operation) override;
  Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                        Executor& executor) override;
  Result<EventPage> List(const EventFilter& filter) override;
  Result<std::optional<Event>> Find(std::uint64_t id) override;
  VerifyReport Verify() override;
  LedgerStats Stats() override;
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;

 private:
  Result<Begun> BeginNow(NewOperation& operation);
  Result<Event> RecordNow(Transition& transition);
  // True: it waits. False: `wait.result` is the answer.
  bool JoinNow(JoinWait& wait);
  Result<void> CommitNow();
  // The joins that have ended. They are completed without the lock: whoever is resumed may call
  // the ledger again.
  std::vector<JoinWait*> TakeEndedJoins(std::optional<std::uint64_t> moved);

  // constant after construction
  const Clock& clock_;

  // set before the first verb
  std::function<void(double, std::size_t)> observer_;

  std::mutex mutex_;
  const std::unique_ptr<LedgerEngine> engine_;  // guarded by mutex_, but for log()
  JoinTable joins_;                             // guarded by mutex_
};

}  // namespace recourse
