#include "filters/ledger/postgres/postgres_ledger.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/queries/flow_queries.h"
#include "filters/ledger/queries/log_queries.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

// Begins are refused at once when nothing has been answered for so long.
constexpr Millis kPgRefusesAfter{1'000};

constexpr PgStatement kCounts{
    "counts",
    "SELECT (SELECT count(*) FROM work WHERE grp = $1::text AND kind = 1),"
    " (SELECT count(*) FROM work WHERE grp = $1::text AND kind = 2),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase = 1),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase IN (3, 4)),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase = 6)"};

}  // namespace

std::expected<std::unique_ptr<Ledger>, std::string> OpenPostgresLedger(PgLedgerOptions options,
                                                                       const Clock& clock) {
  auto ledger = std::make_unique<PostgresLedger>(std::move(options), clock);
  if (auto started = ledger->Start(); !started) return std::unexpected(started.error());
  return ledger;
}

PostgresLedger::PostgresLedger(PgLedgerOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      local_{.clock = clock, .opener = RowDecryptor(options_.keys), .own_time = options_.own_time},
      store_(options_.store, options_.keys, local_),
      reader_(options_.store.connection) {}

PostgresLedger::~PostgresLedger() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::expected<void, std::string> PostgresLedger::Start() {
  if (auto connected = store_.Connect(); !connected) return connected;
  Publish();
  thread_ = std::thread([this] { Run(); });
  return {};
}

Task<Result<Begun>> PostgresLedger::Begin(NewOperation operation, Executor& executor) {
  PgBeginWait wait{operation, &executor, {}};
  auto queued = Submit(std::make_unique<PgBegin>(&wait), limits::kLedgerQueueMax, true);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<Event>> PostgresLedger::Record(Transition transition, Executor& executor) {
  PgRecordWait wait{std::move(transition), &executor, {}};
  auto queued = Submit(std::make_unique<PgRecord>(&wait), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<FlowState>> PostgresLedger::MoveFlow(FlowMove move, Executor& executor) {
  PgMoveWait wait{std::move(move), &executor, {}};
  auto queued = Submit(std::make_unique<PgMove>(&wait), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<ApprovalOutcome>> PostgresLedger::Decide(ApprovalOrder order, Executor& executor) {
  PgDecideWait wait{std::move(order), &executor, {}};
  auto queued = Submit(std::make_unique<PgDecide>(&wait), kPgRecordQueueMax);
  if (!queued) co_return std::unexpected(queued.error());
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::optional<Event>>> PostgresLedger::Join(std::uint64_t operation, MonoTime deadline,
                                                        Executor& executor) {
  JoinWait wait{operation, deadline, &executor, {}, false, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_return co_await wait.promise.Wait();
}

Task<Result<Event>> PostgresLedger::Read(std::uint64_t operation, Executor& executor) {
  JoinWait wait{operation, MonoTime(), &executor, {}, true, {}};
  if (auto queued = Submit(&wait, limits::kLedgerQueueMax); !queued) {
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
  ClaimsWait wait{{after, std::min(limit, limits::kAdminPageMax), &executor}};
  if (auto queued = Submit(ListWait(&wait), limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::vector<Event>>> PostgresLedger::Open(std::uint64_t after, std::size_t limit,
                                                      Executor& executor) {
  EventsWait wait{{after, std::min(limit, limits::kAdminPageMax), &executor}};
  if (auto queued = Submit(ListWait(&wait), limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

Task<Result<std::optional<FlowState>>> PostgresLedger::FindOpenFlow(std::string caller,
                                                                    std::string flow,
                                                                    Executor& executor) {
  FlowsWait wait{{0, 1, &executor}, FlowKeyOf(caller, flow)};
  if (auto queued = Submit(ListWait(&wait), limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  if (!wait.result) co_return std::unexpected(wait.result.error());
  if (wait.result->empty()) co_return std::nullopt;
  co_return std::move(wait.result->front());
}

Task<Result<std::vector<FlowState>>> PostgresLedger::Flows(std::uint64_t after, std::size_t limit,
                                                           Executor& executor) {
  FlowsWait wait{{after, std::min(limit, limits::kAdminPageMax), &executor}, std::nullopt};
  if (auto queued = Submit(ListWait(&wait), limits::kLedgerQueueMax); !queued) {
    co_return std::unexpected(queued.error());
  }
  co_await wait.done.Wait();
  co_return std::move(wait.result);
}

// A mark that finds no room is forgotten, which errs towards replay.
void PostgresLedger::MarkAnswered(AttemptId answered) {
  (void)Submit(Answered{answered, true}, limits::kLedgerQueueMax);
}

void PostgresLedger::MarkUnread(AttemptId answered) {
  (void)Submit(Answered{answered, false}, kPgRecordQueueMax);
}

Result<void> PostgresLedger::RecordPolicy(const PolicyChange& change) {
  auto wait = std::make_shared<NoteWait>(change);
  auto done = wait->promise.get_future();
  if (auto queued = Submit(std::move(wait), kPgRecordQueueMax); !queued) return queued;
  return done.get();
}

Result<void> PostgresLedger::RecordOrder(const OperatorOrder& order) {
  auto wait = std::make_shared<NoteWait>(order);
  auto done = wait->promise.get_future();
  if (auto queued = Submit(std::move(wait), kPgRecordQueueMax); !queued) return queued;
  if (done.wait_for(kPgOrderWaitMax) == std::future_status::ready) return done.get();
  return std::unexpected(
      Error(ErrorCode::kLedgerUnavailable,
            "the database has not confirmed its row for 2 s; the row is there once it does"));
}

Result<std::vector<LoggedRow>> PostgresLedger::Rows(std::uint64_t after, std::uint64_t up_to,
                                                    std::size_t limit) {
  PgEventLog log(reader_, store_.stream());
  return ListRows(log, options_.keys, std::max(after, log.base().first_seq - 1), up_to, limit);
}

Result<EventPage> PostgresLedger::List(const EventFilter& filter) {
  PgEventLog log(reader_, 0);
  return ListEvents(log, options_.keys, filter);
}

Result<std::optional<Event>> PostgresLedger::Find(std::uint64_t id) {
  PgEventLog log(reader_, 0);
  std::string bytes;
  if (!log.NewReader()->Read(id, bytes)) return std::nullopt;
  return FindEvent(log, options_.keys, id);
}

Result<OperationPage> PostgresLedger::Operations(const OperationFilter& /*filter*/) {
  return std::unexpected(Error(ErrorCode::kNotImplemented,
                               "a ledger in a database does not list operations yet",
                               Delivery::kNotSent));
}

Result<std::optional<FlowState>> PostgresLedger::FindFlow(std::uint64_t number) {
  PgEventLog log(reader_, 0);
  return recourse::FindFlow(log, number, ToUnixMillis(clock_.WallNow()));
}

Result<std::vector<FlowState>> PostgresLedger::NewestFlows(std::size_t limit) {
  PgEventLog log(reader_, 0);
  return recourse::NewestFlows(log, limit, ToUnixMillis(clock_.WallNow()));
}

VerifyReport PostgresLedger::Verify() {
  const LedgerStats stats = Stats();
  PgEventLog log(reader_, UnpackRowId(stats.last_id).stream);
  return VerifyLog(log, options_.keys, stats.last_id, stats.head);
}

LedgerStats PostgresLedger::Stats() {
  const auto counts = reader_.Ask(kCounts, PgArguments().Bytes(options_.store.group));
  const std::lock_guard lock(mutex_);
  LedgerStats stats = stats_;
  if (!counts) return stats;
  const PgRows& row = counts->front();
  stats.uncertain = row.Number(0, 0);
  stats.approvals_pending = row.Number(0, 1);
  stats.flows_open = row.Number(0, 2);
  stats.flows_breaking = row.Number(0, 3);
  stats.flows_parked = row.Number(0, 4);
  return stats;
}

void PostgresLedger::SetRule(const LedgerRule& /*rule*/) {
  Log(LogLevel::kWarn, "a ledger in a database removes nothing yet: `retention` does nothing");
}

void PostgresLedger::OnCommit(std::function<void(double seconds, std::size_t rows)> observer) {
  observer_ = std::move(observer);
}

Result<void> PostgresLedger::Submit(Request request, std::size_t queue_max, bool begins) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) {
      return std::unexpected(
          Error(ErrorCode::kLedgerUnavailable, "the ledger is closing", Delivery::kNotSent));
    }
    if (begins && away_since_ && clock_.Now() - *away_since_ >= kPgRefusesAfter) {
      return std::unexpected(PgAway());
    }
    if (queue_.size() >= queue_max) {
      return std::unexpected(
          Error(ErrorCode::kOverloaded, "the ledger's queue is full", Delivery::kNotSent));
    }
    queue_.push_back(std::move(request));
  }
  wake_.notify_one();
  return {};
}

void PostgresLedger::Publish() {
  const std::lock_guard lock(mutex_);
  stats_.last_id = store_.head();
  stats_.head = store_.chain();
  stats_.identity = store_.identity();
  stats_.first_id = PackRowId({static_cast<std::uint32_t>(store_.stream()), 1});
  stats_.rows = UnpackRowId(store_.head()).number;
  stats_.epoch = 1;
  stats_.running = local_.open;
  stats_.commits = commits_;
  stats_.quota_refusals = local_.quota_refusals;
}

}  // namespace recourse
