#include "filters/approval/approval_runner.h"

#include <algorithm>
#include <future>

#include "filters/approval/approved_call.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/executor.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

// What may be otherwise in a moment.
bool IsPassing(ErrorCode code) {
  return code == ErrorCode::kLedgerUnavailable || code == ErrorCode::kLedgerFull ||
         code == ErrorCode::kLedgerRestored || code == ErrorCode::kOverloaded ||
         code == ErrorCode::kQuotaExceeded || code == ErrorCode::kInProgress;
}

// None under a policy that no longer asks: what it asked for is void then.
std::vector<SecretHeader> SecretsOf(const Tool& tool) {
  return tool.approval ? tool.approval->secrets : std::vector<SecretHeader>();
}

constexpr std::string_view kNoCredential = "a credential that the policy names could not be read";

bool HoldsBody(const OwnRoom& room, const RequestContext& context) {
  return room.keeper == nullptr || room.keeper->Hold(HeldFor::kBody, context.request.body.size());
}

}  // namespace

ApprovalRunner::~ApprovalRunner() { RC_CHECK(active_ == 0); }

void ApprovalRunner::Post(Job job) {
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  parts_.executor.Post(std::move(jobs));
}

void ApprovalRunner::SpawnCounted(Task<void> task, Job done) {
  ++active_;
  Spawn(std::move(task), [this, done = std::move(done)]() mutable {
    if (done) done();
    if (--active_ == 0 && drained_) drained_->Set(true);
    Wake();
  });
}

Task<void> ApprovalRunner::Run() {
  co_await Load();
  while (!is_stopping_) {
    Tick();
    if (due_.empty()) {
      wake_.emplace();
      co_await wake_->Wait();
      wake_.reset();
    } else {
      co_await parts_.timer.SleepUntil(NextTick());
    }
  }
  if (active_ > 0) {
    drained_.emplace();
    co_await drained_->Wait();
    drained_.reset();
  }
}

void ApprovalRunner::Stop() {
  Post([this] {
    is_stopping_ = true;
    Wake();
  });
}

void ApprovalRunner::Wake() {
  if (wake_ && !wake_->is_set()) wake_->Set(true);
}

Task<void> ApprovalRunner::Load() {
  std::uint64_t after = 0;
  bool is_told = false;
  while (!is_stopping_) {
    const auto page = co_await parts_.ledger.Claims(after, limits::kClaimsPage, parts_.executor);
    if (!page) {
      if (!std::exchange(is_told, true)) {
        Log(LogLevel::kError, "what waits for approval cannot be read; it is tried again",
            {{"reason", page.error().detail()}});
      }
      co_await parts_.timer.SleepUntil(parts_.clock.Now() + limits::kApprovalAgain);
      continue;
    }
    if (page->empty()) co_return;
    const MonoTime now = parts_.clock.Now();
    for (const Claim& claim : *page) {
      after = claim.event.operation;
      if (claim.event.is_locked) {
        Log(LogLevel::kError, "an operation that waits for approval cannot be read",
            {{"operation", std::to_string(after)}, {"reason", claim.event.detail}});
      } else {
        // Looked at once at the start: the policy may be another one, or it was approved.
        Track(after, now, now + claim.left);
      }
    }
  }
}

void ApprovalRunner::Track(std::uint64_t operation, MonoTime due, MonoTime ends) {
  entries_[operation].ends = ends;
  SetDue(operation, due);
}

void ApprovalRunner::SetDue(std::uint64_t operation, MonoTime due) {
  const auto at = entries_.find(operation);
  if (at == entries_.end()) return;
  due_.erase({at->second.due, operation});
  at->second.due = due;
  if (!at->second.is_worked_on) due_.emplace(due, operation);
}

void ApprovalRunner::Forget(std::uint64_t operation) {
  const auto at = entries_.find(operation);
  if (at == entries_.end()) return;
  due_.erase({at->second.due, operation});
  entries_.erase(at);
}

void ApprovalRunner::Watch(const Event& claim) {
  if (!claim.approval) return;
  Post([this, claim] {
    if (is_stopping_) return;
    const MonoTime ends = parts_.clock.Now() + Millis(claim.approval->expires_ms);
    if (!entries_.contains(claim.operation)) Track(claim.operation, ends, ends);
    if (parts_.tell) parts_.tell(claim);
    // It may have begun to wait under a policy that was replaced a moment ago.
    if (parts_.policy()->digest != claim.approval->policy) {
      SetDue(claim.operation, parts_.clock.Now());
    }
    Wake();
  });
}

void ApprovalRunner::PolicyChanged() {
  Post([this] {
    if (is_stopping_) return;
    const MonoTime now = parts_.clock.Now();
    for (const auto& [operation, entry] : entries_) SetDue(operation, now);
    Wake();
  });
}

void ApprovalRunner::Tick() {
  const MonoTime now = parts_.clock.Now();
  while (!is_stopping_ && !due_.empty() && active_ < limits::kApprovedAtOnceMax &&
         due_.begin()->first <= now) {
    const std::uint64_t operation = due_.begin()->second;
    due_.erase(due_.begin());
    entries_.at(operation).is_worked_on = true;
    SpawnCounted(Work(operation), [this, operation] {
      const auto at = entries_.find(operation);
      if (at == entries_.end()) return;
      at->second.is_worked_on = false;
      due_.emplace(at->second.due, operation);
    });
  }
}

MonoTime ApprovalRunner::NextTick() const {
  const MonoTime now = parts_.clock.Now();
  return std::min(now + limits::kApprovalTick, std::max(due_.begin()->first, now));
}

Task<void> ApprovalRunner::Work(std::uint64_t operation) {
  // Looked at again soon if nothing below says when.
  SetDue(operation, parts_.clock.Now() + limits::kApprovalAgain);
  auto event = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!event || is_stopping_) co_return;
  if (event->phase == Phase::kClaimed) {
    const auto outcome =
        co_await DecideNow({.kind = ApprovalOrder::Kind::kExpire, .operation = operation});
    const auto at = entries_.find(operation);
    if (outcome && outcome->kind == ApprovalRuling::Kind::kNotDue && at != entries_.end() &&
        at->second.due > parts_.clock.Now()) {
      SetDue(operation, std::max(at->second.ends, at->second.due));
    }
  } else if (event->phase == Phase::kApproved) {
    co_await Send(std::move(*event));
  } else {
    Forget(operation);
  }
}

// Compared once more where DISPATCHING is written: in time, under the same policy, and once.
Task<void> ApprovalRunner::Send(Event approved) {
  const std::uint64_t operation = approved.operation;
  RC_CRASH_POINT("k16");
  std::string failure;
  const OwnRoom room(parts_.keep);
  auto context = ApprovedCall(approved, parts_.policy());
  if (!context) {
    failure = context.error();
  } else if (auto read = AddSecrets(SecretsOf(*(*context)->tool), parts_.read_secret,
                                    (*context)->credentials);
             !read) {
    co_return co_await Delay(approved, std::move(read.error()), kNoCredential);
  } else if (!room.is_there || !HoldsBody(room, **context)) {
    co_return co_await Delay(approved, std::string(kNoRoom), kNoRoom);
  } else {
    (*context)->keeper = room.keeper.get();
    if (const auto at = entries_.find(operation); at != entries_.end()) at->second.obstacle.clear();
    (*context)->executor = &parts_.executor;
    (*context)->timer = &parts_.timer;
    const auto outcome = co_await parts_.send(**context);
    const bool is_ours = outcome && outcome->local && outcome->local->error;
    if (is_ours && IsPassing(*outcome->local->error)) {
      SetDue(operation, parts_.clock.Now() + limits::kApprovalAgain);
    } else if (is_ours) {
      failure = FactsOf(*outcome->local->error).title;
    }
  }
  const auto now = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!now) co_return;  // looked at again
  if (now->phase != Phase::kApproved) {
    if (now->phase == Phase::kExpired && parts_.tell) parts_.tell(*now);
    Forget(operation);
  } else if (!failure.empty()) {
    (void)co_await DecideNow({.kind = ApprovalOrder::Kind::kCannotRun,
                              .operation = operation,
                              .reason = std::move(failure)});
  }
}

// What is missing may be mounted any moment. Its approval is not used up meanwhile.
Task<void> ApprovalRunner::Delay(const Event& approved, std::string obstacle,
                                 std::string_view reason) {
  const std::uint64_t operation = approved.operation;
  (void)co_await DecideNow({.kind = ApprovalOrder::Kind::kExpire,
                            .operation = operation,
                            .reason = std::string(reason)});
  const auto at = entries_.find(operation);
  if (at == entries_.end() || at->second.obstacle == obstacle) co_return;
  Log(LogLevel::kError, "an approved call cannot be sent yet; it is tried again until it expires",
      {{"operation", std::to_string(operation)}, {"tool", approved.tool}, {"reason", obstacle}});
  at->second.obstacle = std::move(obstacle);
}

void ApprovalRunner::AddObstacle(Event& event) const {
  const auto at = entries_.find(event.operation);
  if (event.phase != Phase::kApproved || at == entries_.end()) return;
  if (!at->second.obstacle.empty()) event.detail += "; not sent yet: " + at->second.obstacle;
}

Task<std::expected<ApprovalOutcome, std::string>> ApprovalRunner::DecideNow(ApprovalOrder order) {
  using Decided = std::expected<ApprovalOutcome, std::string>;
  const std::uint64_t operation = order.operation;
  order.policy = parts_.policy()->digest;
  RC_CRASH_POINT("k15");
  auto outcome = co_await parts_.ledger.Decide(std::move(order), parts_.executor);
  if (!outcome) co_return Decided(std::unexpected(std::string(outcome.error().detail())));
  if (!outcome->moved) co_return Decided(std::move(*outcome));
  if (parts_.tell) parts_.tell(outcome->event);
  if (outcome->event.phase == Phase::kApproved) {
    SetDue(operation, parts_.clock.Now());
    Wake();
  } else if (IsFinal(outcome->event.phase)) {
    Forget(operation);
  }
  co_return Decided(std::move(*outcome));
}

template <class T>
std::expected<T, std::string> ApprovalRunner::Await(
    std::function<Task<std::expected<T, std::string>>()> make) {
  using Answer = std::expected<T, std::string>;
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  Post([this, make = std::move(make), promise]() mutable {
    if (is_stopping_) {
      promise->set_value(std::unexpected(kShuttingDown));
      return;
    }
    SpawnCounted([](std::function<Task<Answer>()> begin, std::shared_ptr<std::promise<Answer>> told)
                     -> Task<void> { told->set_value(co_await begin()); }(std::move(make), promise),
                 nullptr);
  });
  while (answer.wait_for(limits::kApprovalTick) != std::future_status::ready) {
    if (closed_) return std::unexpected(kShuttingDown);
  }
  return answer.get();
}

std::expected<ApprovalOutcome, std::string> ApprovalRunner::Decide(ApprovalOrder order) {
  return Await<ApprovalOutcome>([this, order = std::move(order)] { return DecideNow(order); });
}

std::expected<std::vector<Claim>, std::string> ApprovalRunner::List(std::uint64_t after,
                                                                    std::size_t limit) {
  return Await<std::vector<Claim>>([this, after, limit] { return ListNow(after, limit); });
}

std::expected<Event, std::string> ApprovalRunner::Read(std::uint64_t operation) {
  return Await<Event>([this, operation] { return ReadNow(operation); });
}

Task<std::expected<Event, std::string>> ApprovalRunner::ReadNow(std::uint64_t operation) {
  using Answer = std::expected<Event, std::string>;
  auto event = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!event) co_return Answer(std::unexpected(std::string(event.error().detail())));
  AddObstacle(*event);
  co_return Answer(std::move(*event));
}

Task<std::expected<std::vector<Claim>, std::string>> ApprovalRunner::ListNow(std::uint64_t after,
                                                                             std::size_t limit) {
  using Answer = std::expected<std::vector<Claim>, std::string>;
  auto page = co_await parts_.ledger.Claims(after, limit, parts_.executor);
  if (!page) co_return Answer(std::unexpected(std::string(page.error().detail())));
  for (Claim& claim : *page) AddObstacle(claim.event);
  co_return Answer(std::move(*page));
}

}  // namespace recourse
