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
// How long an operator's order waits for the database.
constexpr std::chrono::seconds kPgOrderWaitMax{2};

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

// A flow that only its deadline has stopped, with nothing unknown, is not among the parked ones.
constexpr PgStatement kCounts{
    "counts",
    "WITH parked AS (SELECT f.row_stream, f.row_number, f.cause = 5 AND NOT EXISTS (SELECT 1"
    "  FROM operation o WHERE o.flow = f.flow AND o.grp = f.grp AND o.phase IN (5, 6))"
    "  AS is_stopped FROM flow f WHERE f.grp = $1::text AND f.phase = 6)"
    " SELECT (SELECT count(*) FROM work WHERE grp = $1::text AND kind = 1),"
    " (SELECT count(*) FROM work WHERE grp = $1::text AND kind = 2),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase = 1),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase IN (3, 4)),"
    " (SELECT count(*) FROM parked WHERE NOT is_stopped),"
    " (SELECT min(o.wall_ms) FROM work w JOIN event f ON f.stream = w.stream AND f.number = "
    "w.number AND f.grp = w.grp"
    " JOIN operation o ON o.grp = f.grp AND o.key = f.key WHERE w.grp = $1::text AND w.kind = 1),"
    " (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'),"
    " (SELECT restored_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM secret s"
    " WHERE s.grp = $1::text AND s.accepted_at >= restored_at) FROM ledger),"
    " (SELECT count(*) FROM parked WHERE is_stopped),"
    " (SELECT coalesce((extract(epoch FROM min(e.at)) * 1000)::bigint, 0) FROM parked p"
    "  JOIN event e ON e.stream = p.row_stream AND e.number = p.row_number WHERE NOT "
    "p.is_stopped)"};
// Who has something to do says so each second. A turn of the keeper has no owner.
#define PG_LIVES "s.state = 1 AND s.at > now() - interval '3 minutes'"
constexpr PgStatement kOrphans{
    "orphans",
    "SELECT (SELECT count(*) FROM work w WHERE w.grp = $1::text AND w.kind < 4 AND NOT EXISTS"
    " (SELECT 1 FROM stream s WHERE s.stream = w.owner AND " PG_LIVES
    ")) + (SELECT coalesce(sum(greatest(0, s.open - (SELECT count(*) FROM work w WHERE w.owner ="
    " s.stream))), 0) FROM stream s WHERE s.grp = $1::text AND s.state < 3 AND s.open > 0"
    " AND NOT (" PG_LIVES "))::bigint"};
#undef PG_LIVES
// A role that may not look into them is still told how many there are. Who reads a logical slot
// takes nobody's place.
constexpr PgStatement kStandbys{
    "standbys",
    "SELECT count(*) FROM pg_stat_replication r WHERE current_setting('synchronous_standby_names')"
    " = '' AND NOT EXISTS (SELECT 1 FROM pg_replication_slots l WHERE l.active_pid = r.pid AND"
    " l.slot_type = 'logical')"};

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

}  // namespace

std::expected<std::unique_ptr<Ledger>, std::string> OpenPostgresLedger(PgLedgerOptions options,
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
              .clock = clock}) {}

std::expected<void, std::string> PostgresLedger::Start() {
  auto started = lane_.Start();
  if (started) watch_.Start();
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
  const Counted counted(kept_bytes_, transition.answer.body.size());
  PgRecordWait wait{std::move(transition), &executor, {}};
  auto queued = lane_.Submit(std::make_unique<PgRecord>(&wait), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<FlowState>> PostgresLedger::MoveFlow(FlowMove move, Executor& executor) {
  PgMoveWait wait{std::move(move), &executor, {}};
  auto queued = lane_.Submit(std::make_unique<PgMove>(&wait), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<ApprovalOutcome>> PostgresLedger::Decide(ApprovalOrder order, Executor& executor) {
  PgDecideWait wait{std::move(order), &executor, {}};
  auto queued = lane_.Submit(std::make_unique<PgDecide>(&wait), kPgRecordQueueMax);
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

template <class Given>
Task<Result<std::vector<Given>>> PostgresLedger::PageOf(PgPage page, Executor& executor) {
  page.limit = std::min(page.limit, limits::kAdminPageMax);
  PgPageWait<Given> wait{std::move(page), &executor};
  if (auto queued = lane_.Submit(PgListWait(&wait), limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::vector<PendingApproval>>> PostgresLedger::Claims(std::uint64_t after,
                                                                  std::size_t limit,
                                                                  Executor& executor) {
  return PageOf<PendingApproval>({.after = after, .limit = limit}, executor);
}

Task<Result<std::vector<PendingApproval>>> PostgresLedger::OwnClaims(std::uint64_t after,
                                                                     std::size_t limit,
                                                                     Executor& executor) {
  return PageOf<PendingApproval>({.after = after, .limit = limit, .is_own = true}, executor);
}

Task<Result<std::vector<Event>>> PostgresLedger::Open(std::uint64_t after, std::size_t limit,
                                                      Executor& executor) {
  return PageOf<Event>({.after = after, .limit = limit, .is_own = true}, executor);
}

Task<Result<std::optional<FlowState>>> PostgresLedger::FindOpenFlow(std::string caller,
                                                                    std::string flow,
                                                                    Executor& executor) {
  auto found =
      co_await PageOf<FlowState>({.limit = 1, .flow_name = FlowKeyOf(caller, flow)}, executor);
  if (!found) co_return std::unexpected(found.error());
  if (found->empty()) co_return std::nullopt;
  co_return std::move(found->front());
}

Task<Result<std::vector<FlowState>>> PostgresLedger::Flows(std::uint64_t after, std::size_t limit,
                                                           Executor& executor) {
  return PageOf<FlowState>({.after = after, .limit = limit}, executor);
}

Task<Result<std::vector<FlowState>>> PostgresLedger::OwnFlows(std::uint64_t after,
                                                              std::size_t limit,
                                                              Executor& executor) {
  return PageOf<FlowState>({.after = after, .limit = limit, .is_own = true}, executor);
}

// A mark that finds no room is forgotten, which errs towards replay.
void PostgresLedger::MarkAnswered(AttemptId answered) {
  (void)lane_.Note({answered, PgMark::What::kRead}, limits::kLedgerQueueMax);
}

void PostgresLedger::MarkUnread(AttemptId answered) {
  (void)lane_.Note({answered, PgMark::What::kUnread}, kPgRecordQueueMax);
}

Result<void> PostgresLedger::RecordPolicy(const PolicyChange& change) {
  auto wait = std::make_shared<PgNoteWait>(change);
  auto done = wait->promise.get_future();
  if (auto queued = lane_.Submit(std::move(wait), kPgRecordQueueMax); !queued) return queued;
  return done.get();
}

Result<void> PostgresLedger::RecordOrder(const OperatorOrder& order) {
  auto wait = std::make_shared<PgNoteWait>(order);
  auto done = wait->promise.get_future();
  if (auto queued = lane_.Submit(std::move(wait), kPgRecordQueueMax); !queued) return queued;
  if (done.wait_for(kPgOrderWaitMax) == std::future_status::ready) return done.get();
  return std::unexpected(
      Error(ErrorCode::kLedgerUnavailable,
            "the database has not confirmed its row for 2 s; the row is there once it does"));
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
  const auto counts = reader().Ask(kCounts, PgArguments().Bytes(options_.store.group));
  LedgerStats stats = lane_.Stats();
  answers_ = counts.has_value();
  if (!counts) return stats;
  const PgRows& row = counts->front();
  stats.uncertain = row.Number(0, 0);
  stats.approvals_pending = row.Number(0, 1);
  stats.flows_open = row.Number(0, 2);
  stats.flows_breaking = row.Number(0, 3);
  stats.flows_parked = row.Number(0, 4);
  const std::int64_t unknown_ms = row.Int(0, 5);
  if (unknown_ms != 0 && (stats.oldest_pending_ms == 0 || unknown_ms < stats.oldest_pending_ms)) {
    stats.oldest_pending_ms = unknown_ms;
  }
  stats.used_bytes = row.Number(0, 6);
  stats.restored = row.Int(0, 7) != 0;
  stats.flows_stopped = row.Number(0, 8);
  stats.flows_parked_since_ms = row.Int(0, 9);
  const auto number = [&](const PgStatement& statement, const PgArguments& arguments) {
    const auto asked = reader().Ask(statement, arguments);
    return asked ? asked->front().Number(0, 0) : 0;
  };
  orphaned_work_ = number(kOrphans, PgArguments().Bytes(options_.store.group));
  asynchronous_standbys_ = number(kStandbys, {});
  return stats;
}

SharedLedgerCounts PostgresLedger::SharedCounts() {
  SharedLedgerCounts counts = lane_.Counts();
  counts.is_up = counts.is_up && answers_;
  counts.takeovers = watch_.takeovers();
  counts.orphaned_work = orphaned_work_;
  counts.asynchronous_standbys = asynchronous_standbys_;
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
