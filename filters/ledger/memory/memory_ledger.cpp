#include "filters/ledger/memory/memory_ledger.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "proxy/base/check.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

void CompleteAll(const std::vector<JoinWait*>& waits) {
  for (JoinWait* wait : waits) wait->promise.Set(std::move(wait->result));
}

}  // namespace

MemoryLedger::MemoryLedger(std::unique_ptr<Engine> engine, const Clock& clock)
    : LoggedLedger(std::move(engine), clock) {}

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
  JoinWait wait{operation, deadline, &executor, {}, false, {}};
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

Task<Result<FlowState>> MemoryLedger::MoveFlow(FlowMove move, Executor& /*executor*/) {
  std::vector<JoinWait*> ended;
  Result<FlowState> moved;
  {
    const std::lock_guard lock(mutex_);
    moved = engine_->MoveFlow(move);
    if (moved) {
      if (auto committed = CommitNow(); !committed) moved = std::unexpected(committed.error());
    }
    ended = TakeEndedJoins(std::nullopt);
  }
  CompleteAll(ended);
  co_return moved;
}

Task<Result<Event>> MemoryLedger::Read(std::uint64_t operation, Executor& executor) {
  JoinWait wait{operation, MonoTime(), &executor, {}, true, {}};
  const std::lock_guard lock(mutex_);
  (void)JoinNow(wait);
  if (!wait.result) co_return std::unexpected(wait.result.error());
  co_return std::move(**wait.result);
}

Task<Result<ApprovalOutcome>> MemoryLedger::Decide(ApprovalOrder order, Executor& /*executor*/) {
  std::vector<JoinWait*> ended;
  Result<ApprovalOutcome> outcome;
  {
    const std::lock_guard lock(mutex_);
    outcome = engine_->Decide(order);
    if (outcome) {
      if (auto committed = CommitNow(); !committed) outcome = std::unexpected(committed.error());
    }
    ended = TakeEndedJoins(std::nullopt);
  }
  CompleteAll(ended);
  co_return outcome;
}

Task<Result<std::vector<PendingApproval>>> MemoryLedger::Claims(std::uint64_t after,
                                                                std::size_t limit,
                                                                Executor& /*executor*/) {
  std::vector<JoinWait*> ended;
  Result<std::vector<PendingApproval>> claims;
  {
    const std::lock_guard lock(mutex_);
    ended = TakeEndedJoins(std::nullopt);
    claims = engine_->Claims(after, std::min(limit, limits::kAdminPageMax));
  }
  CompleteAll(ended);
  co_return claims;
}

Task<Result<std::optional<FlowState>>> MemoryLedger::FindOpenFlow(std::string caller,
                                                                  std::string flow,
                                                                  Executor& /*executor*/) {
  const std::lock_guard lock(mutex_);
  const FlowState* const found = engine_->flows().Find(caller, flow);
  co_return found == nullptr ? std::nullopt : std::optional(*found);
}

Task<Result<std::vector<FlowState>>> MemoryLedger::Flows(std::uint64_t after, std::size_t limit,
                                                         Executor& /*executor*/) {
  const std::lock_guard lock(mutex_);
  co_return engine_->flows().List(after, std::min(limit, limits::kAdminPageMax));
}

void MemoryLedger::MarkUnread(AttemptId answered) {
  const std::lock_guard lock(mutex_);
  engine_->MarkUnread(answered);
  (void)CommitNow();
}

void MemoryLedger::MarkAnswered(AttemptId answered) {
  std::vector<JoinWait*> ended;
  {
    const std::lock_guard lock(mutex_);
    engine_->MarkAnswered(answered);
    (void)CommitNow();  // a lost mark errs towards replay
    ended = TakeEndedJoins(std::nullopt);
  }
  CompleteAll(ended);
}

Result<void> MemoryLedger::RecordPolicy(const PolicyChange& change) {
  const std::lock_guard lock(mutex_);
  if (auto noted = engine_->RecordPolicy(change); !noted) return noted;
  return CommitNow();
}

Result<void> MemoryLedger::RecordOrder(const OperatorOrder& order) {
  const std::lock_guard lock(mutex_);
  if (auto noted = engine_->RecordOrder(order); !noted) return noted;
  return CommitNow();
}

Result<std::vector<bool>> MemoryLedger::AreNewest(const std::vector<OperationRow>& rows) {
  const std::lock_guard lock(mutex_);
  return engine_->AreNewest(rows);
}

LogHead MemoryLedger::CommittedHead() {
  const std::lock_guard lock(mutex_);
  return engine_->head();
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

void MemoryLedger::SetRule(const LedgerRule& rule) {
  const std::lock_guard lock(mutex_);
  rule_ = rule;
  retire_due_ = {};
}

// Before a verb, so that it finds what is kept now.
void MemoryLedger::Retire() {
  const MonoTime now = clock_.Now();
  if (!rule_ || now < retire_due_) return;
  for (bool more = true; more;) {
    const auto retired = engine_->Retire(*rule_);
    more = retired && retired->more;
  }
  retire_due_ = now + Retirement::Every(*rule_);
}

Result<Begun> MemoryLedger::BeginNow(NewOperation& operation) {
  Retire();
  auto step = engine_->Begin(operation);
  if (!step) return std::unexpected(step.error());
  auto committed = CommitNow();
  if (step->writes_event) {
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
  if (!wait.reads && IsAwaited(state->phase)) {
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
  if (done) Checkpoint();
  return done;
}

// One commit freezes and the next one stores, so that look-ups meet what is frozen.
void MemoryLedger::Checkpoint() {
  IndexCheckpoints& index = engine_->index();
  if (index.frozen() == nullptr) {
    if (index.WantsFreeze()) (void)index.Freeze();
  } else if (index.cold()->Write(*index.frozen())) {
    index.FrozenIsStored();
  }
}

void MemoryLedger::TakeJoinsOf(std::uint64_t operation, std::vector<JoinWait*>& ended) {
  if (!joins_.Has(operation)) return;
  const auto state = engine_->StateOf(operation);
  if (!state || IsAwaited(state->phase)) return;
  const Result<Event> event = engine_->Load(state->last_event);
  for (JoinWait* wait : joins_.TakeOperation(operation)) {
    if (event) {
      wait->result = *event;
    } else {
      wait->result = std::unexpected(event.error());
    }
    ended.push_back(wait);
  }
}

std::vector<JoinWait*> MemoryLedger::TakeEndedJoins(std::optional<std::uint64_t> moved) {
  std::vector<JoinWait*> ended;
  if (moved) TakeJoinsOf(*moved, ended);
  for (const std::uint64_t operation : engine_->TakeEndedClaims()) TakeJoinsOf(operation, ended);
  for (JoinWait* wait : joins_.TakeExpired(clock_.Now())) {
    wait->result = std::nullopt;
    ended.push_back(wait);
  }
  return ended;
}

std::unique_ptr<Ledger> MakeMemoryLedger(const Clock& clock, std::uint32_t stream) {
  auto engine = StartEngine(
      {.resources = nullptr, .log = std::make_unique<MemoryEventLog>(stream), .cold = nullptr},
      clock);
  RC_CHECK(engine.has_value());  // an empty log in memory gives nothing to fail on
  return std::make_unique<MemoryLedger>(std::move(*engine), clock);
}

}  // namespace recourse
