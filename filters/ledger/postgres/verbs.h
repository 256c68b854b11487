// The verbs of a ledger in PostgreSQL while they are decided: each keeps what it was asked for, so
// that it can be decided anew where another process was first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/facts.h"
#include "filters/ledger/rules/begin.h"
#include "filters/ledger/rules/decide_approval.h"
#include "filters/ledger/rules/move_flow.h"
#include "filters/ledger/rules/plan.h"
#include "filters/ledger/rules/record_outcome.h"
#include "proxy/base/executor.h"

namespace recourse {

// One thread. Whoever waits is told once, by a job for its executor.
class PgVerb {
 public:
  virtual ~PgVerb() = default;
  PgVerb() = default;
  PgVerb(const PgVerb&) = delete;

  // Forgets what was decided, and what was read.
  void Restart(LocalFacts& local, bool guesses) {
    local_ = &local;
    facts_.emplace(local, guesses, &elsewhere_);
    known_ = Known();
    Reset();
  }
  // The plan stays where it is.
  Judged<Plan*> Decide() {
    known_.BeginRound();
    auto plan = Ask(known_);
    if (!plan && std::holds_alternative<Need>(plan.error())) {
      facts_->Answer(known_, known_.needs());
    }
    return plan;
  }
  Known& known() { return known_; }
  VerbFacts& facts() { return *facts_; }

  // What was decided stands.
  virtual Job Succeed() = 0;
  virtual Job Fail(const Error& error) = 0;
  virtual Executor* executor() const = 0;
  // Whether it begins a call: nothing was sent for it, and its caller may come again.
  virtual bool begins() const { return false; }
  // Whether it is refused while the ledger is restored and nobody has accepted that.
  virtual bool may_be_held_back() const { return false; }
  // Whoever waits for it waits so long for a database that is away, if `wait` is the usual time;
  // unset: as long as that takes. Then it is told so.
  virtual std::optional<MonoTime> patience(Millis /*wait*/) const { return std::nullopt; }
  virtual Job TellAway() { return {}; }
  // Takes back what it has begun; unset: it begins nothing.
  virtual std::optional<Transition> Withdrawal() const { return std::nullopt; }
  // Of what was decided: who waits for it, if others are to know that.
  virtual std::optional<GroupClient> client() const { return std::nullopt; }
  // While outcomes are refused one call begins for all that do not, is told that it did not, and is
  // taken back. Once that is written outcomes are, even where one is refused for its own sake.
  bool BecomesTrial(const std::deque<std::unique_ptr<PgVerb>>& among) {
    is_trial = may_be_tried() &&
               std::ranges::none_of(among, [](const auto& one) { return one->is_trial; });
    return is_trial;
  }

  MonoTime since{};  // it waits
  MonoTime due{};    // when it is decided, but for now
  int rounds = 0;    // so often it has lost
  int refusals = 0;  // so often the database has refused what it writes: it then goes alone
  PgRefusals::Of rows = PgRefusals::Of::kOther;  // that it writes
  bool is_refused_alone = false;                 // which says nothing of others
  bool is_trial = false;                         // see BecomesTrial
  // Its waiter has been told that it did not happen. If it does, what it begins is taken back.
  bool is_abandoned = false;

 protected:
  virtual void Reset() = 0;
  virtual Judged<Plan*> Ask(Known& known) = 0;
  virtual bool may_be_tried() const { return false; }
  LocalFacts& local() const { return *local_; }

 private:
  LocalFacts* local_ = nullptr;
  ClientsElsewhere elsewhere_;
  std::optional<VerbFacts> facts_;
  Known known_;
};

// What is asked stays with its waiter; what is decided on is a copy.
struct PgBeginWait {
  NewOperation& operation;
  Executor* executor = nullptr;
  Result<Begun> result;
  Promise<bool> done{};
};
class PgBegin final : public PgVerb {
 public:
  explicit PgBegin(PgBeginWait* wait) : executor_(wait->executor), wait_(wait) {}
  Job Succeed() override;
  Job Fail(const Error& error) override;
  Executor* executor() const override { return executor_; }
  bool begins() const override { return true; }
  std::optional<MonoTime> patience(Millis wait) const override {
    return wait_ != nullptr ? std::optional(since + wait) : std::nullopt;
  }
  // That it did not happen.
  Job TellAway() override;
  bool may_be_held_back() const override {
    return wait_->operation.event.verdict == ObserveVerdict::kNone;
  }
  std::optional<Transition> Withdrawal() const override;
  std::optional<GroupClient> client() const override;
  // Only what is new may be guessed.
  bool may_guess() const {
    return wait_->operation.approved == 0 && !wait_->operation.passes_fence;
  }
  const NewOperation& operation() const { return wait_->operation; }

 protected:
  bool may_be_tried() const override { return may_guess(); }
  void Reset() override;
  Judged<Plan*> Ask(Known& known) override;

 private:
  Executor* const executor_;
  PgBeginWait* wait_;  // null: its waiter has been told
  std::optional<NewOperation> call_;
  std::optional<BeginRule> rule_;
  std::optional<BeginPlan> planned_;
  std::optional<GroupClient> left_;  // by then
};

template <class Asked, class Given>
struct PgWait {
  Asked asked;
  Executor* executor = nullptr;
  Result<Given> result;
  Promise<bool> done{};
};
using PgRecordWait = PgWait<Transition, Event>;
using PgMoveWait = PgWait<FlowMove, FlowState>;
using PgDecideWait = PgWait<ApprovalOrder, ApprovalOutcome>;

class PgRecord final : public PgVerb {
 public:
  // `room` is held until it is written.
  PgRecord(PgRecordWait* wait, std::shared_ptr<const void> room)
      : room_(std::move(room)), wait_(wait) {}
  Job Succeed() override;
  Job Fail(const Error& error) override;
  // Its waiter is told that, and waits no more; what it says is still written once that can be.
  Job TellMeanwhile(const Error& error);
  std::optional<MonoTime> patience(Millis wait) const override;
  Job TellAway() override;
  Executor* executor() const override { return wait_ != nullptr ? wait_->executor : nullptr; }
  std::uint64_t operation() const {
    return wait_ != nullptr ? wait_->asked.operation : asked_->operation;
  }

 protected:
  void Reset() override;
  Judged<Plan*> Ask(Known& known) override;

 private:
  void TellSecondEffect();

  const std::shared_ptr<const void> room_;
  PgRecordWait* wait_;                 // null: its waiter has been told
  std::optional<Transition> asked_{};  // then
  std::optional<Transition> transition_;
  Plan plan_;
};

// Takes back what was begun and is not sent, as nobody waits for it any more.
class PgCancel final : public PgVerb {
 public:
  explicit PgCancel(Transition withdrawal) : withdrawal_(std::move(withdrawal)) {}
  Job Succeed() override;
  Job Fail(const Error& /*error*/) override { return {}; }
  Executor* executor() const override { return nullptr; }

 protected:
  void Reset() override;
  Judged<Plan*> Ask(Known& known) override;

 private:
  const Transition withdrawal_;
  Transition transition_;
  Plan plan_;
};

// What an operator, an agent or a worker of ours decides.
template <class Wait, class Asked, class Planned>
class PgOrder final : public PgVerb {
 public:
  explicit PgOrder(Wait* wait) : asked_(wait->asked), executor_(wait->executor), wait_(wait) {}
  Job Succeed() override;
  Job Fail(const Error& error) override;
  Executor* executor() const override { return executor_; }
  std::optional<MonoTime> patience(Millis wait) const override {
    if (wait_ == nullptr || !asked_.told_by) return std::nullopt;
    return std::max(*asked_.told_by, since + wait);
  }
  // It happens only if it is on its way.
  Job TellAway() override;

 protected:
  void Reset() override {}
  Judged<Plan*> Ask(Known& known) override;

 private:
  const Asked asked_;
  Executor* const executor_;
  Wait* wait_;  // null: its waiter has been told
  Planned planned_;
};
using PgMove = PgOrder<PgMoveWait, FlowMove, FlowPlan>;
using PgDecide = PgOrder<PgDecideWait, ApprovalOrder, ApprovalPlan>;

// It says what became of something that this process sends, of whose operations it is one, and is
// kept until it is written.
template <class Operations>
bool IsOutcome(const PgVerb& verb, const Operations& own) {
  if (dynamic_cast<const PgCancel*>(&verb) != nullptr) return true;
  const auto* const record = dynamic_cast<const PgRecord*>(&verb);
  return record != nullptr && own.contains(record->operation());
}
// The database has refused the last batch, which was of those.
void NoteRefused(const std::vector<std::pair<PgVerb*, Plan*>>& batch, LocalFacts& local);
// It has written those, and `all` wait.
void NoteWritten(const std::set<PgVerb*>& those, const std::deque<std::unique_ptr<PgVerb>>& all,
                 LocalFacts& local);

}  // namespace recourse
