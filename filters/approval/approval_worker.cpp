#include "filters/approval/approval_worker.h"

#include <algorithm>

#include "filters/approval/approved_call.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/base/crash_point.h"
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

Task<void> ApprovalWorker::Run() {
  co_await Load();
  co_await loop_.Run([this] { Tick(); }, [this] { return due_.next(); });
  co_await loop_.Drain();
}

Task<void> ApprovalWorker::Load() {
  std::uint64_t after = 0;
  bool is_told = false;
  while (!loop_.is_stopping()) {
    const auto page = co_await parts_.ledger.OwnClaims(after, limits::kClaimsPage, parts_.executor);
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
    for (const PendingApproval& claim : *page) {
      after = claim.event.operation;
      if (claim.event.is_locked) {
        Log(LogLevel::kError, "an operation that waits for approval cannot be read",
            {{"operation", PrintRowId(after)}, {"reason", claim.event.detail}});
      } else {
        // Looked at once at the start: the policy may be another one, or it was approved.
        Track(after, now, now + claim.left);
      }
    }
  }
}

void ApprovalWorker::LoadMore() {
  loop_.Post([this] { loop_.Spawn(Load(), [this] { loop_.Wake(); }); });
}

void ApprovalWorker::Track(std::uint64_t operation, MonoTime due, MonoTime ends) {
  entries_[operation].ends = ends;
  SetDue(operation, due);
}

// By the wall clock, which may be another one than that of who asked. What ends is looked at again
// where it is written.
MonoTime ApprovalWorker::EndOf(const ApprovalFacts& facts) const {
  const std::int64_t waited_ms = ToUnixMillis(parts_.clock.WallNow()) - facts.asked_ms;
  return parts_.clock.Now() + Millis(std::max<std::int64_t>(0, facts.expires_ms - waited_ms));
}

void ApprovalWorker::SetDue(std::uint64_t operation, MonoTime due) {
  if (entries_.contains(operation)) due_.Set(operation, due);
}

void ApprovalWorker::Forget(std::uint64_t operation) {
  due_.Forget(operation);
  entries_.erase(operation);
}

void ApprovalWorker::Watch(const Event& claim) {
  if (!claim.approval) return;
  loop_.Post([this, claim] {
    if (loop_.is_stopping()) return;
    const MonoTime ends = parts_.clock.Now() + Millis(claim.approval->expires_ms);
    if (!entries_.contains(claim.operation)) Track(claim.operation, ends, ends);
    if (parts_.tell) parts_.tell(claim);
    // It may have begun to wait under a policy that was replaced a moment ago.
    if (parts_.policy(claim.approval->policy)->digest != claim.approval->policy) {
      SetDue(claim.operation, parts_.clock.Now());
    }
    loop_.Wake();
  });
}

void ApprovalWorker::PolicyChanged() {
  loop_.Post([this] {
    if (loop_.is_stopping()) return;
    const MonoTime now = parts_.clock.Now();
    for (const auto& [operation, entry] : entries_) SetDue(operation, now);
    loop_.Wake();
  });
}

void ApprovalWorker::Tick() {
  while (!loop_.is_stopping() && loop_.active() < limits::kApprovedAtOnceMax) {
    const std::optional<std::uint64_t> operation = due_.Take(parts_.clock.Now());
    if (!operation) return;
    loop_.Spawn(Work(*operation), [this, taken = *operation] {
      due_.PutBack(taken);
      loop_.Wake();
    });
  }
}

Task<void> ApprovalWorker::Work(std::uint64_t operation) {
  // Looked at again soon if nothing below says when.
  SetDue(operation, parts_.clock.Now() + limits::kApprovalAgain);
  auto event = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!event || loop_.is_stopping()) co_return;
  if (event->phase == Phase::kClaimed) {
    const auto outcome = co_await DecideNow(
        {.kind = ApprovalOrder::Kind::kExpire, .operation = operation, .key = event->key});
    const auto at = entries_.find(operation);
    if (outcome && outcome->kind == ApprovalRuling::Kind::kNotDue && at != entries_.end() &&
        due_.TimeOf(operation) > parts_.clock.Now()) {
      due_.Set(operation, std::max(at->second.ends, due_.TimeOf(operation)));
    }
  } else if (event->phase == Phase::kApproved) {
    co_await Send(std::move(*event));
  } else {
    Forget(operation);
  }
}

// Compared once more where DISPATCHING is written: in time, under the same policy, and once.
Task<void> ApprovalWorker::Send(Event approved) {
  const std::uint64_t operation = approved.operation;
  RC_CRASH_POINT("k16");
  std::string failure;
  const OwnRoom room(parts_.keep);
  auto context = ApprovedCall(approved, parts_.policy(approved.approval->policy));
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
                              .key = approved.key,
                              .reason = std::move(failure)});
  }
}

// What is missing may be mounted any moment. Its approval is not used up meanwhile.
Task<void> ApprovalWorker::Delay(const Event& approved, std::string obstacle,
                                 std::string_view reason) {
  const std::uint64_t operation = approved.operation;
  (void)co_await DecideNow({.kind = ApprovalOrder::Kind::kExpire,
                            .operation = operation,
                            .key = approved.key,
                            .reason = std::string(reason)});
  const auto at = entries_.find(operation);
  if (at == entries_.end() || at->second.obstacle == obstacle) co_return;
  Log(LogLevel::kError, "an approved call cannot be sent yet; it is tried again until it expires",
      {{"operation", PrintRowId(operation)}, {"tool", approved.tool}, {"reason", obstacle}});
  at->second.obstacle = std::move(obstacle);
}

void ApprovalWorker::AddObstacle(Event& event) const {
  const auto at = entries_.find(event.operation);
  if (event.phase != Phase::kApproved || at == entries_.end()) return;
  if (!at->second.obstacle.empty()) event.detail += "; not sent yet: " + at->second.obstacle;
}

Task<std::expected<ApprovalOutcome, std::string>> ApprovalWorker::DecideNow(ApprovalOrder order) {
  using Decided = std::expected<ApprovalOutcome, std::string>;
  const std::uint64_t operation = order.operation;
  const auto asked = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!asked) co_return Decided(std::unexpected(std::string(asked.error().detail())));
  order.policy = parts_.policy(asked->approval ? asked->approval->policy : Digest{})->digest;
  if (order.kind == ApprovalOrder::Kind::kApprove || order.kind == ApprovalOrder::Kind::kReject) {
    order.told_by = MonoTime{};
  }
  RC_CRASH_POINT("k15");
  auto outcome = co_await parts_.ledger.Decide(std::move(order), parts_.executor);
  if (!outcome) co_return Decided(std::unexpected(std::string(outcome.error().detail())));
  if (!outcome->moved) co_return Decided(std::move(*outcome));
  if (parts_.tell) parts_.tell(outcome->event);
  if (IsFinal(outcome->event.phase)) {
    Forget(operation);
    co_return Decided(std::move(*outcome));
  }
  // Another process may have asked: who has said something last sees to the rest.
  if (!entries_.contains(operation)) {
    const MonoTime ends = EndOf(*outcome->event.approval);
    Track(operation, ends, ends);
  }
  if (outcome->event.phase == Phase::kApproved) SetDue(operation, parts_.clock.Now());
  loop_.Wake();
  co_return Decided(std::move(*outcome));
}

std::expected<ApprovalOutcome, std::string> ApprovalWorker::Decide(ApprovalOrder order) {
  return loop_.Await<ApprovalOutcome>(
      [this, order = std::move(order)] { return DecideNow(order); });
}

std::expected<std::vector<PendingApproval>, std::string> ApprovalWorker::List(std::uint64_t after,
                                                                              std::size_t limit) {
  return loop_.Await<std::vector<PendingApproval>>(
      [this, after, limit] { return ListNow(after, limit); });
}

std::expected<Event, std::string> ApprovalWorker::Read(std::uint64_t operation) {
  return loop_.Await<Event>([this, operation] { return ReadNow(operation); });
}

Task<std::expected<Event, std::string>> ApprovalWorker::ReadNow(std::uint64_t operation) {
  using Answer = std::expected<Event, std::string>;
  auto event = co_await parts_.ledger.Read(operation, parts_.executor);
  if (!event) co_return Answer(std::unexpected(std::string(event.error().detail())));
  AddObstacle(*event);
  co_return Answer(std::move(*event));
}

Task<std::expected<std::vector<PendingApproval>, std::string>> ApprovalWorker::ListNow(
    std::uint64_t after, std::size_t limit) {
  using Answer = std::expected<std::vector<PendingApproval>, std::string>;
  auto page = co_await parts_.ledger.Claims(after, limit, parts_.executor);
  if (!page) co_return Answer(std::unexpected(std::string(page.error().detail())));
  for (PendingApproval& claim : *page) AddObstacle(claim.event);
  co_return Answer(std::move(*page));
}

}  // namespace recourse
