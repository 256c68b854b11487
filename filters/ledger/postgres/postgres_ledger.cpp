#include "filters/ledger/postgres/postgres_ledger.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rules/record_outcome.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Outcomes must find room even when the queue is full of beginnings.
constexpr std::size_t kPgRecordQueueMax = 2 * limits::kLedgerQueueMax;
// Calls that wait to begin; the rest are refused.
constexpr std::size_t kPgBeginsMax = 4'096;
// How long an operator's order waits for the database, and a policy, by which signals wait.
constexpr std::chrono::seconds kPgOrderWaitMax{2}, kPgPolicyWaitMax{5};

std::unexpected<Error> NotConfirmed() {
  return std::unexpected(
      Error(ErrorCode::kLedgerUnavailable,
            "the database has not confirmed its row in time; the row is there once it does"));
}

// The thread that waits is the one that is posted to.
class ThreadExecutor final : public Executor {
 public:
  void Post(std::vector<Job> jobs) override {
    const std::lock_guard lock(mutex_);
    for (Job& job : jobs) jobs_.push_back(std::move(job));
    posted_.notify_one();
  }
  void RunUntil(const std::function<bool()>& is_done) {
    while (!is_done()) {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return !jobs_.empty(); });
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Job> jobs_;  // guarded by mutex_
};

// So much of what `all` counts, while it lives.
struct Counted {
  explicit Counted(std::atomic<std::size_t>& of, std::size_t much)
      : all(of), size(much), before(of.fetch_add(much)) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { all.fetch_sub(size); }
  std::atomic<std::size_t>& all;
  const std::size_t size, before;
};

// Of a dead process's operations; waits. They go out in one batch. What has moved on meanwhile is
// none of a dead process's any more. What is sealed with a missing key is told once all is done.
Result<void> RecordLost(Ledger& ledger, std::vector<Transition> moves) {
  ThreadExecutor here;
  std::size_t left = moves.size();
  Result<void> all;
  const auto record = [](Ledger& to, Transition transition, ThreadExecutor& executor,
                         Result<void>& told) -> Task<void> {
    const auto event = co_await to.Record(std::move(transition), executor);
    if (event || event.error().code() != ErrorCode::kLedgerUnavailable) co_return;
    if (told || !IsSealedError(event.error())) told = std::unexpected(event.error());
  };
  for (Transition& move : moves) {
    Spawn(record(ledger, std::move(move), here, all), [&left] { --left; });
  }
  here.RunUntil([&left] { return left == 0; });
  return all;
}

template <class Given>
Task<Result<std::vector<Given>>> PageOf(PgLane& lane, PgPage page, Executor& executor) {
  page.limit = std::min(page.limit, limits::kAdminPageMax);
  PgPageWait<Given> wait{std::move(page), &executor};
  if (auto queued = lane.Submit(PgListWait(&wait), limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

}  // namespace

std::expected<std::unique_ptr<Ledger>, Unopened> OpenPostgresLedger(PgLedgerOptions options,
                                                                    const Clock& clock) {
  auto ledger = std::make_unique<PostgresLedger>(std::move(options), clock);
  if (auto started = ledger->Start(); !started) return std::unexpected(started.error());
  return ledger;
}

PostgresLedger::PostgresLedger(PgLedgerOptions options, const Clock& clock)
    : PgOperatorsLedger({options.store.connection, options.store.group, options.keys, clock,
                         [this] { return lane_.stream(); },
                         [this] { return &lane_.group_clock(); }}),
      options_(std::move(options)),
      clock_(clock),
      lane_(options_, clock),
      watch_({.table = {.connection = options_.store.connection,
                        .group = options_.store.group,
                        .own = 0,
                        .record =
                            [this](std::vector<Transition> moves) {
                              return RecordLost(*this, std::move(moves));
                            },
                        .acknowledged =
                            [this] {
                              const LedgerStats stats = lane_.Stats();
                              return PgStreamTable::Parts::LastRow{stats.last_id, stats.head};
                            },
                        .behind = [this] { lane_.Beat(); },
                        .has_said_taking = [this] { return lane_.has_said_taking(); },
                        .note = [this](const OperatorOrder& order) { return RecordOrder(order); },
                        .pod = options_.store.pod,
                        .observes = options_.observes},
              .own = [this] { return lane_.stream(); },
              .taking = [this](bool is_taking) { lane_.SetTaking(is_taking); },
              .took =
                  [this] {
                    const std::lock_guard lock(take_over_mutex_);
                    on_take_over_ ? on_take_over_() : void(took_untold_ = true);
                  },
              .late = [this] { return lane_.Counts().late; },
              .clock = clock}) {}

std::expected<void, Unopened> PostgresLedger::Start() {
  auto started = lane_.Start();
  if (!started) return started;
  watch_.Start();
  counter().Start();  // so that there is something to tell when the database goes
  return started;
}

Task<Result<Begun>> PostgresLedger::Begin(NewOperation operation, Executor& executor) {
  PgBeginWait wait{operation, &executor, {}};
  auto verb = std::make_unique<PgBegin>(&wait);
  verb->since = clock_.Now();
  const Counted counted(beginning_, 1);
  if (counted.before >= kPgBeginsMax) {
    co_return std::unexpected(Error(ErrorCode::kOverloaded,
                                    "too many calls wait for the ledger's database",
                                    Delivery::kNotSent));
  }
  auto queued = lane_.Submit(std::move(verb), limits::kLedgerQueueMax, true);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<Event>> PostgresLedger::Record(Transition transition, Executor& executor) {
  const std::size_t room =
      options_.kept_bytes_max - std::min<std::size_t>(options_.kept_bytes_max, kept_bytes_);
  if (transition.answer.body.size() > room && lane_.is_away()) {
    transition.answer_kept = false;
    transition.answer = HttpResponse();
  }
  auto kept = std::make_shared<Counted>(kept_bytes_, transition.answer.body.size());
  PgRecordWait wait{std::move(transition), &executor, {}};
  auto verb = std::make_unique<PgRecord>(&wait, std::move(kept));
  verb->since = clock_.Now();
  auto queued = lane_.Submit(std::move(verb), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<FlowState>> PostgresLedger::MoveFlow(FlowMove move, Executor& executor) {
  PgMoveWait wait{std::move(move), &executor, {}};
  auto verb = std::make_unique<PgMove>(&wait);
  verb->since = clock_.Now();
  auto queued = lane_.Submit(std::move(verb), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<ApprovalOutcome>> PostgresLedger::Decide(ApprovalOrder order, Executor& executor) {
  PgDecideWait wait{std::move(order), &executor, {}};
  auto verb = std::make_unique<PgDecide>(&wait);
  verb->since = clock_.Now();
  auto queued = lane_.Submit(std::move(verb), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::optional<Event>>> PostgresLedger::Join(std::uint64_t operation, MonoTime deadline,
                                                        Executor& executor) {
  JoinWait wait{operation, deadline, &executor, {}, false, {}};
  if (auto queued = lane_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<Event>> PostgresLedger::Read(std::uint64_t operation, Executor& executor) {
  JoinWait wait{operation, MonoTime(), &executor, {}, true, {}};
  if (auto queued = lane_.Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  auto read = co_await wait.promise.Wait();
  if (!read) co_return std::unexpected(read.error());
  if (!*read) co_return std::unexpected(PgAway());
  co_return std::move(**read);
}

Task<Result<std::vector<PendingApproval>>> PostgresLedger::Claims(std::uint64_t after,
                                                                  std::size_t limit,
                                                                  Executor& executor) {
  return PageOf<PendingApproval>(lane_, {.after = after, .limit = limit}, executor);
}

Task<Result<std::vector<PendingApproval>>> PostgresLedger::OwnClaims(std::uint64_t after,
                                                                     std::size_t limit,
                                                                     Executor& executor) {
  return PageOf<PendingApproval>(lane_, {.after = after, .limit = limit, .is_own = true}, executor);
}

Task<Result<std::vector<Event>>> PostgresLedger::Open(std::uint64_t after, std::size_t limit,
                                                      Executor& executor) {
  return PageOf<Event>(lane_, {.after = after, .limit = limit, .is_own = true}, executor);
}

Task<Result<std::optional<FlowState>>> PostgresLedger::FindOpenFlow(std::string caller,
                                                                    std::string flow,
                                                                    Executor& executor) {
  auto found = co_await PageOf<FlowState>(lane_, {.limit = 1, .flow_name = FlowKeyOf(caller, flow)},
                                          executor);
  if (!found) co_return std::unexpected(found.error());
  if (found->empty()) co_return std::nullopt;
  co_return std::move(found->front());
}

Task<Result<std::vector<FlowState>>> PostgresLedger::Flows(std::uint64_t after, std::size_t limit,
                                                           Executor& executor) {
  return PageOf<FlowState>(lane_, {.after = after, .limit = limit}, executor);
}

Task<Result<std::vector<FlowState>>> PostgresLedger::OwnFlows(std::uint64_t after,
                                                              std::size_t limit,
                                                              Executor& executor) {
  return PageOf<FlowState>(lane_, {.after = after, .limit = limit, .is_own = true}, executor);
}

// A mark that finds no room is forgotten, which errs towards replay.
void PostgresLedger::MarkAnswered(AttemptId answered) {
  (void)lane_.Note({answered, PgMark::What::kRead}, limits::kLedgerQueueMax);
}

void PostgresLedger::MarkUnread(AttemptId answered) {
  (void)lane_.Note({answered, PgMark::What::kUnread}, kPgRecordQueueMax);
}

Result<void> PostgresLedger::RecordPolicy(const PolicyChange& change) {
  const std::lock_guard lock(noting_mutex_);
  const bool is_under_way = noting_ && noting_->version == change.version;
  if (!is_under_way) {
    auto wait = std::make_shared<PgNoteWait>(change);
    noting_ = {change.version, wait->promise.get_future()};
    if (auto queued = lane_.Submit(std::move(wait), kPgRecordQueueMax); !queued) {
      noting_.reset();
      return queued;
    }
  }
  if (noting_->done.wait_for(kPgPolicyWaitMax) != std::future_status::ready) {
    return NotConfirmed();
  }
  auto done = noting_->done.get();
  noting_.reset();
  return done;
}

Result<void> PostgresLedger::RecordOrder(const OperatorOrder& order) {
  auto wait = std::make_shared<PgNoteWait>(order);
  auto done = wait->promise.get_future();
  if (auto queued = lane_.Submit(std::move(wait), kPgRecordQueueMax); !queued) return queued;
  if (done.wait_for(kPgOrderWaitMax) == std::future_status::ready) return done.get();
  return NotConfirmed();
}

Result<std::vector<LoggedRow>> PostgresLedger::Rows(std::uint64_t after, std::uint64_t up_to,
                                                    std::size_t limit) {
  PgEventLog log(reader(), UnpackRowId(lane_.Stats().last_id).stream);
  return ListRows(log, options_.keys, std::max(after, log.base().first_seq - 1), up_to, limit);
}

VerifyReport PostgresLedger::Verify() {
  const LedgerStats stats = Stats();
  PgEventLog log(reader(), UnpackRowId(stats.last_id).stream);
  return VerifyLog(log, options_.keys, stats.last_id, stats.head);
}

LedgerStats PostgresLedger::Stats() {
  LedgerStats stats = lane_.Stats();
  counter().AddTo(stats);
  stats.is_away = stats.is_away || lane_.is_away();
  return stats;
}

SharedLedgerCounts PostgresLedger::SharedCounts() {
  SharedLedgerCounts counts = lane_.Counts();
  counter().AddTo(counts);
  counts.takeovers = watch_.takeovers();
  return counts;
}

void PostgresLedger::SetRule(const LedgerRule& rule) {
  lane_.SetAges(KeptTooLong(rule), KeeperEvery(rule));
  if (options_.keeper != nullptr) options_.keeper->SetRule(rule);
}

void PostgresLedger::OnTakeOver(std::function<void()> told) {
  const std::lock_guard lock(take_over_mutex_);
  on_take_over_ = std::move(told);
  if (std::exchange(took_untold_, false)) on_take_over_();
}

void PostgresLedger::OnCommit(std::function<void(double seconds, std::size_t rows)> observer) {
  lane_.set_observer(std::move(observer));
}

}  // namespace recourse
