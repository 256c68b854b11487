#include "filters/ledger/memory/memory_ledger.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "filters/ledger/log_queries.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/recovery.h"
#include "proxy/base/check.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

void CompleteAll(const std::vector<JoinWait*>& waits) {
  for (JoinWait* wait : waits) wait->promise.Set(std::move(wait->result));
}

}  // namespace

MemoryLedger::MemoryLedger(std::unique_ptr<LedgerEngine> engine, const Clock& clock)
    : clock_(clock), engine_(std::move(engine)) {}

MemoryLedger::~MemoryLedger() {
  const std::vector<JoinWait*> waits = joins_.TakeAll();
  for (JoinWait* wait : waits) wait->result = std::nullopt;
  CompleteAll(waits);
}

Task<Result<Begun>> MemoryLedger::Begin(NewOperation operation, Executor& /*executor*/) {
  std::vector<JoinWait*> ended;
  Result<Begun> begun;
  {
    const std::lock_guard lock(mutex_);
    begun = BeginNow(operation);
    ended = TakeEndedJoins(std::nullopt);
  }
  CompleteAll(ended);
  co_return begun;
}

Task<Result<Event>> MemoryLedger::Record(Transition transition, Executor& /*executor*/) {
  std::vector<JoinWait*> ended;
  Result<Event> event;
  {
    const std::lock_guard lock(mutex_);
    event = RecordNow(transition);
    ended = TakeEndedJoins(transition.operation);
  }
  CompleteAll(ended);
  co_return event;
}

Task<Result<std::optional<Event>>> MemoryLedger::Join(std::uint64_t operation, MonoTime deadline,
                                                      Executor& executor) {
  JoinWait wait{operation, deadline, &executor, {}, {}};
  std::vector<JoinWait*> ended;
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    ended = TakeEndedJoins(std::nullopt);
    waits = JoinNow(wait);
  }
  CompleteAll(ended);
  if (!waits) co_return std::move(wait.result);
  co_return co_await wait.promise.Wait();
}

Task<Result<std::vector<Event>>> MemoryLedger::Open(std::uint64_t after, std::size_t limit,
                                                    Executor& /*executor*/) {
  std::vector<JoinWait*> ended;
  Result<std::vector<Event>> events;
  {
    const std::lock_guard lock(mutex_);
    ended = TakeEndedJoins(std::nullopt);
    events = engine_->Open(after, std::min(limit, limits::kAdminPageMax));
  }
  CompleteAll(ended);
  co_return events;
}

void MemoryLedger::MarkAnswered(std::uint64_t operation) {
  std::vector<JoinWait*> ended;
  {
    const std::lock_guard lock(mutex_);
    engine_->MarkAnswered(operation);
    (void)CommitNow();  // a lost mark errs towards replay
    ended = TakeEndedJoins(std::nullopt);
  }
  CompleteAll(ended);
}

Result<EventPage> MemoryLedger::List(const EventFilter& filter) {
  return ListEvents(engine_->log(), filter);
}

Result<std::optional<Event>> MemoryLedger::Find(std::uint64_t id) {
  return FindEvent(engine_->log(), id);
}

VerifyReport MemoryLedger::Verify() {
  const std::lock_guard lock(mutex_);
  return VerifyLog(engine_->log(), engine_->head().seq, engine_->head().hash);
}

LedgerStats MemoryLedger::Stats() {
  const std::lock_guard lock(mutex_);
  LedgerStats stats = engine_->Stats();
  const LogSizes sizes = engine_->log().sizes();
  stats.used_bytes = sizes.used_bytes;
  stats.map_bytes = sizes.map_bytes;
  return stats;
}

void MemoryLedger::OnCommit(std::function<void(double seconds, std::size_t rows)> observer) {
  observer_ = std::move(observer);
}

Result<Begun> MemoryLedger::BeginNow(NewOperation& operation) {
  auto step = engine_->Begin(operation);
  if (!step) return std::unexpected(step.error());
  auto committed = CommitNow();
  if (step->begun.kind == Begun::Kind::kFresh) {
    step->begun.commit = std::make_shared<PendingCommit>();
    step->begun.commit->Complete(committed);
  }
  // Every batch is committed before the next verb, so nothing can be found uncommitted.
  RC_CHECK(step->load_after_commit == 0);
  return std::move(step->begun);
}

Result<Event> MemoryLedger::RecordNow(Transition& transition) {
  auto event = engine_->Record(transition);
  if (!event) return event;
  if (auto committed = CommitNow(); !committed) return std::unexpected(committed.error());
  return event;
}

bool MemoryLedger::JoinNow(JoinWait& wait) {
  const auto state = engine_->StateOf(wait.operation);
  if (!state) {
    wait.result = std::unexpected(state.error());
    return false;
  }
  if (state->phase == Phase::kDispatching) {
    if (wait.deadline > clock_.Now() && joins_.Add(wait)) return true;
    wait.result = std::nullopt;
    return false;
  }
  auto event = engine_->Load(state->last_event);
  if (event) {
    wait.result = std::move(*event);
  } else {
    wait.result = std::unexpected(event.error());
  }
  return false;
}

Result<void> MemoryLedger::CommitNow() {
  const std::size_t rows = engine_->batch_rows();
  if (rows == 0 && !engine_->has_marks()) return {};
  const MonoTime start = clock_.Now();
  auto done = engine_->Commit();
  if (done && observer_) {
    observer_(std::chrono::duration<double>(clock_.Now() - start).count(), rows);
  }
  return done;
}

std::vector<JoinWait*> MemoryLedger::TakeEndedJoins(std::optional<std::uint64_t> moved) {
  std::vector<JoinWait*> ended;
  if (moved && joins_.Has(*moved)) {
    const auto state = engine_->StateOf(*moved);
    if (state && state->phase != Phase::kDispatching) {
      const Result<Event> event = engine_->Load(state->last_event);
      ended = joins_.TakeOperation(*moved);
      for (JoinWait* wait : ended) {
        if (event) {
          wait->result = *event;
        } else {
          wait->result = std::unexpected(event.error());
        }
      }
    }
  }
  for (JoinWait* wait : joins_.TakeExpired(clock_.Now())) {
    wait->result = std::nullopt;
    ended.push_back(wait);
  }
  return ended;
}

std::unique_ptr<Ledger> MakeMemoryLedger(const Clock& clock) {
  auto engine = StartEngine(
      {.resources = nullptr, .log = std::make_unique<MemoryEventLog>(), .cold = nullptr}, clock);
  RC_CHECK(engine.has_value());  // an empty log in memory gives nothing to fail on
  return std::make_unique<MemoryLedger>(std::move(*engine), clock);
}

}  // namespace recourse
