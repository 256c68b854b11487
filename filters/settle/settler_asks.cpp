// The part of SettleWorker that asks once on demand: about a step that was proved absent, and after
// an undo.
#include "filters/call/key_placeholder.h"
#include "filters/call/stored_call.h"
#include "filters/settle/reply.h"
#include "filters/settle/settle_worker.h"

namespace recourse {
Task<SecondLook> SettleWorker::LookAgain(Event absent, Executor& executor) {
  const auto told = std::make_shared<Promise<SecondLook>>();
  loop_.Post([this, told, on = &executor, event = std::move(absent)]() mutable {
    if (loop_.is_stopping()) {
      Reply(*on, told, SecondLook::kNothing);
      return;
    }
    loop_.Spawn([](SettleWorker& self, Event step, Executor& waiter,
                   std::shared_ptr<Promise<SecondLook>> answer) -> Task<void> {
      Reply(waiter, std::move(answer), co_await self.ProbeAbsent(std::move(step)));
    }(*this, std::move(event), *on, told));
  });
  co_return co_await told->Wait();
}

Task<bool> SettleWorker::SaysGone(Event undone, Executor& executor) {
  const auto told = std::make_shared<Promise<bool>>();
  loop_.Post([this, told, on = &executor, event = std::move(undone)]() mutable {
    if (loop_.is_stopping()) {
      Reply(*on, told, false);
      return;
    }
    loop_.Spawn([](SettleWorker& self, Event step, Executor& waiter,
                   std::shared_ptr<Promise<bool>> answer) -> Task<void> {
      Reply(waiter, std::move(answer), co_await self.ProbeUndone(std::move(step)));
    }(*this, std::move(event), *on, told));
  });
  co_return co_await told->Wait();
}

Task<bool> SettleWorker::ProbeUndone(Event undone) {
  const std::shared_ptr<const Policy> policy = parts_.policy(undone.policy_version);
  const auto target = ProbeTargetOf(undone, policy);
  if (!target) co_return false;
  co_return co_await sender_.SaysGone(std::move(undone), policy, *target);
}

Task<SecondLook> SettleWorker::ProbeAbsent(Event absent) {
  const std::shared_ptr<const Policy> policy = parts_.policy(absent.policy_version);
  const auto target = ProbeTargetOf(absent, policy);
  if (!target) co_return SecondLook::kNothing;
  const Tool& tool = *target->tool;
  const ProbeReading reading = co_await sender_.AskAbout(absent, policy, *target, 1);
  if (parts_.probed) parts_.probed(tool.name, reading.verdict);
  if (reading.verdict == ProbeVerdict::kAbsent) co_return SecondLook::kAbsent;
  if (reading.verdict == ProbeVerdict::kNothing) co_return SecondLook::kNothing;
  if (!AsksByKey(*absent.settle)) co_return SecondLook::kPerhaps;
  const auto recorded = co_await recorder_.RecordLate(
      absent, policy.get(),
      PresentTransition(absent, FindingOf(reading, tool), tool, CapturesOf(absent, *policy),
                        KeyRuleOf(tool, *target->backend)));
  co_return recorded ? SecondLook::kTookEffect : SecondLook::kNothing;
}

}  // namespace recourse
