#include "filters/ledger/postgres/verbs.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/waits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

template <class Wait>
Job Wake(Wait* wait) {
  return [wait] { wait->done.Set(true); };
}

template <class AnyPlan>
auto& FirstEvent(AnyPlan& plan) {
  return std::get<EventWrite>(plan.writes.front()).event;
}

}  // namespace

void PgBegin::Reset() {
  planned_.reset();
  rule_.reset();
  call_.emplace(wait_->operation);
  rule_.emplace(*call_);
}

Judged<Plan*> PgBegin::Ask(Known& known) {
  auto planned = rule_->Decide(known);
  if (!planned) return std::unexpected(planned.error());
  planned_.emplace(std::move(*planned));
  return &planned_->plan;
}

Job PgBegin::Succeed() {
  if (wait_ == nullptr) return {};
  if (call_->wait != nullptr && planned_->waits_for != 0) call_->wait->WaitFor(planned_->waits_for);
  Begun begun = std::move(planned_->begun);
  if (planned_->writes_event) {
    begun.event = std::move(FirstEvent(planned_->plan));
    // Its sender has it.
    if (planned_->request != BeginPlan::Request::kStays) begun.event.request.reset();
    begun.commit = std::make_shared<PendingCommit>();
    begun.commit->Complete({}, local().permit);
  }
  wait_->result = std::move(begun);
  return Wake(wait_);
}

// Where only a retry is the same call, others ask whether this one is over.
std::optional<GroupClient> PgBegin::client() const {
  if (wait_ == nullptr || !planned_) return left_;
  const bool asks = call_->is_retry_only || call_->across_traces != AcrossTraces::kNever;
  if (call_->wait == nullptr || !asks || planned_->waits_for == 0) return std::nullopt;
  auto table = call_->wait->table();
  if (table == nullptr) return std::nullopt;
  const bool begins = planned_->writes_event;
  const Event& event = begins ? FirstEvent(planned_->plan) : planned_->begun.event;
  return GroupClient{{planned_->waits_for, event.attempt, event.key}, !begins, std::move(table)};
}

Job PgBegin::Fail(const Error& error) {
  if (wait_ == nullptr) return {};
  left_ = client();
  const bool may_have_effect = planned_ && planned_->may_have_effect;
  wait_->result = std::unexpected(
      may_have_effect ? Error(error.code(), error.detail(), Delivery::kUncertain) : error);
  if (call_) call_->wait = nullptr;
  return Wake(std::exchange(wait_, nullptr));
}

Job PgBegin::TellAway() {
  is_abandoned = true;
  return Fail(PgAway());
}

std::optional<Transition> PgBegin::Withdrawal() const {
  if (!planned_->writes_event) return std::nullopt;
  const Event& event = FirstEvent(planned_->plan);
  auto withdrawal = Transition::Unsent(
      event, is_trial ? "the ledger's database refused outcomes; nothing was sent"
                      : "the ledger's database did not answer in time; nothing was sent");
  if (event.verdict != ObserveVerdict::kNone) {  // what is observed is sent all the same
    withdrawal.to = Phase::kUncertain;
    withdrawal.detail = "the ledger's database did not answer in time";
  }
  if (event.phase == Phase::kDispatching) return withdrawal;
  if (event.phase != Phase::kClaimed) return std::nullopt;
  // Nobody has said no, so that the repeat asks.
  withdrawal.to = Phase::kExpired;
  withdrawal.cause = Cause::kExpired;
  return withdrawal;
}

void PgCancel::Reset() {
  plan_ = Plan();
  transition_ = withdrawal_;
}

// What it leaves is nobody's yet: an unknown outcome, or a flow's deadline.
Job PgCancel::Succeed() {
  ++local().shared.late;
  return {};
}

Judged<Plan*> PgCancel::Ask(Known& known) {
  auto plan = recourse::Decide(transition_, known);
  if (!plan) return std::unexpected(plan.error());
  plan_ = std::move(*plan);
  return &plan_;
}

// The caller's event is left to it until this is decided: another round may need its row again.
void PgRecord::Reset() {
  plan_ = Plan();
  transition_.emplace(wait_ != nullptr ? wait_->asked : *asked_);
  const Event* const sent = std::exchange(transition_->dispatching, nullptr);
  if (sent != nullptr) transition_->key = sent->key;
}

Judged<Plan*> PgRecord::Ask(Known& known) {
  auto plan = recourse::Decide(*transition_, known);
  if (!plan) return std::unexpected(plan.error());
  plan_ = std::move(*plan);
  return &plan_;
}

Job PgRecord::TellMeanwhile(const Error& error) {
  if (wait_ == nullptr) return {};
  auto* const waiter = std::exchange(wait_, nullptr);
  // Not what was decided on, of which the plan has taken its part.
  asked_ = std::move(waiter->asked);
  const Event* const sent = std::exchange(asked_->dispatching, nullptr);  // it is the waiter's
  if (sent != nullptr) asked_->key = sent->key;
  waiter->result = std::unexpected(error);
  return Wake(waiter);
}

std::optional<MonoTime> PgRecord::patience(Millis wait) const {
  if (wait_ == nullptr || !wait_->asked.told_by) return std::nullopt;
  return std::max(*wait_->asked.told_by, since + wait);
}

Job PgRecord::TellAway() {
  return TellMeanwhile(
      Error(ErrorCode::kLedgerUnavailable, PgAway().detail(), Delivery::kUncertain));
}

Job PgRecord::Succeed() {
  if (wait_ == nullptr) {
    ++local().shared.late;
    return {};
  }
  wait_->result = std::move(FirstEvent(plan_));
  return Wake(wait_);
}

// What this process sent had its effect, although another one had taken it for dead and gone on: it
// was found to have had none, or was sent again.
void PgRecord::TellSecondEffect() {
  const Transition& told = *transition_;
  if (told.from != Phase::kDispatching || !IsExecuted(told.to)) return;
  const auto found = known().Get(OperationOf{told.operation});
  if (!found || !**found) return;
  if (!IsMeant(told.key, (**found)->key)) return;
  const KeyEntry& now = (**found)->entry;
  const bool was_absent = now.attempt == told.attempt && !MayHaveEffect(now.phase);
  if (now.attempt == told.attempt && !was_absent) return;
  ++local().shared.second_effects;
  Log(LogLevel::kError,
      "a call had its effect after this process was taken for dead and another one had gone on "
      "with it: it may have been executed twice",
      {{"operation", PrintRowId(told.operation)},
       {"attempt", std::to_string(told.attempt)},
       {"attempts_since", std::to_string(now.attempt - told.attempt)},
       {"external_ref", told.external_ref},
       {"do", "look at the backend, and undo what is too much"}});
}

Job PgRecord::Fail(const Error& error) {
  TellSecondEffect();
  if (wait_ == nullptr) return {};
  wait_->result = std::unexpected(error);
  return Wake(wait_);
}

template <class Wait, class Asked, class Planned>
Judged<Plan*> PgOrder<Wait, Asked, Planned>::Ask(Known& known) {
  auto planned = recourse::Decide(asked_, known);
  if (!planned) return std::unexpected(planned.error());
  planned_ = std::move(*planned);
  return &planned_.plan;
}

template <class Wait, class Asked, class Planned>
Job PgOrder<Wait, Asked, Planned>::Succeed() {
  if (wait_ == nullptr) {
    ++local().shared.late;
    return {};
  }
  if constexpr (std::is_same_v<Planned, ApprovalPlan>) {
    if (!planned_.plan.writes.empty()) planned_.reply.event = std::move(FirstEvent(planned_.plan));
  }
  wait_->result = std::move(planned_.reply);
  return Wake(std::exchange(wait_, nullptr));
}

template <class Wait, class Asked, class Planned>
Job PgOrder<Wait, Asked, Planned>::Fail(const Error& error) {
  if (wait_ == nullptr) return {};
  wait_->result = std::unexpected(error);
  return Wake(std::exchange(wait_, nullptr));
}

template <class Wait, class Asked, class Planned>
Job PgOrder<Wait, Asked, Planned>::TellAway() {
  is_abandoned = true;
  return Fail(
      Error(ErrorCode::kLedgerUnavailable,
            "the ledger's database does not answer; whether this was done shows once it does",
            Delivery::kUncertain));
}

void NoteRefused(const std::vector<std::pair<PgVerb*, Plan*>>& batch, LocalFacts& local) {
  const PgFailure& why = local.refusal;
  const bool is_alone = batch.size() == 1;
  if (!is_alone || !batch[0].first->is_refused_alone) local.refusals.Tell(why);
  if (batch.empty()) local.refusals.Add(PgRefusals::Of::kBeat, why);
  // Of several kinds each is tried alone.
  const bool is_mixed = std::ranges::any_of(
      batch, [&](const auto& one) { return one.first->rows != batch[0].first->rows; });
  for (const auto& [verb, plan] : batch) {
    verb->is_refused_alone = verb->is_refused_alone || (is_alone && why.is_of_values());
    if (is_mixed || verb->is_refused_alone || why.is_of_values()) continue;
    local.refusals.Add(verb->rows, why);
  }
}

void NoteWritten(const std::set<PgVerb*>& those, const std::deque<std::unique_ptr<PgVerb>>& all,
                 LocalFacts& local) {
  std::set<PgRefusals::Of> rows{PgRefusals::Of::kBeat, PgRefusals::Of::kOther};
  for (const PgVerb* const verb : those) rows.insert(verb->rows);
  // Marks change the rows that outcomes change.
  if (rows.contains(PgRefusals::Of::kOutcome)) rows.insert(PgRefusals::Of::kMark);
  for (const PgRefusals::Of one : rows) local.refusals.End(one);
  for (const auto& verb : all) {
    const bool is_left = verb->refusals > 0 && !those.contains(verb.get());
    if (is_left && rows.contains(verb->rows)) verb->is_refused_alone = true;
  }
}

template class PgOrder<PgMoveWait, FlowMove, FlowPlan>;
template class PgOrder<PgDecideWait, ApprovalOrder, ApprovalPlan>;

}  // namespace recourse
