// The part of SettleWorker that sends settle requests: for an unknown outcome, for a step that was
// proved absent, and after an undo.
#include "filters/call/key_placeholder.h"
#include "filters/call/stored_call.h"
#include "filters/settle/absence.h"
#include "filters/settle/reply.h"
#include "filters/settle/search.h"
#include "filters/settle/settle_worker.h"
#include "policy/template/own_terms.h"

namespace recourse {
namespace {

HttpRequest ProbeRequest(const Event& event, const Tool& tool, const Backend& backend) {
  RenderedRequest rendered = WithKey(*event.settle, ProbeKey(event, tool, backend));
  HttpRequest request{std::move(rendered.method), backend.base_path + rendered.target,
                      std::move(rendered.headers), std::move(rendered.body)};
  SetHeader(request.headers, "Accept-Encoding", "identity");
  SetHeader(request.headers, "Cache-Control", "no-cache");
  DropTerms(request.headers);
  return request;
}

}  // namespace

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

std::optional<SettleWorker::Asker> SettleWorker::AskerOf(
    const Event& event, const std::shared_ptr<const Policy>& policy) {
  const bool is_its_own = policy && policy->version == event.policy_version;
  const Tool* const tool = is_its_own ? policy->FindTool(event.tool) : nullptr;
  const Backend* const backend = is_its_own ? FindBackend(*policy, event.backend) : nullptr;
  if (!event.settle || tool == nullptr || !tool->settle || backend == nullptr) {
    return std::nullopt;
  }
  return Asker{tool, backend};
}

Task<ProbeReading> SettleWorker::AskAbout(Event event, std::shared_ptr<const Policy> policy,
                                          const Tool& tool, const Backend& backend, int number) {
  const SettleRule& rule = *tool.settle;
  std::optional<HttpRequest> request = ProbeRequest(event, tool, backend);
  Search search;
  search.wanted =
      TermsOf(WithKey(*event.settle, ProbeKey(event, tool, backend)).headers, kWhereTerm);
  Result<Answer> answer = std::unexpected(Error());
  while (request) {
    OwnRequest told(OwnRequest::Kind::kProbe, event, policy, backend, number);
    answer = co_await Ask(backend, *request, limits::kProbeAnswerBytesMax, std::move(told));
    if (!rule.search) co_return JudgeProbe(rule, answer);
    request = TakePage(rule, backend, *request, answer, search);
  }
  co_return JudgeSearch(rule, search, answer);
}

Task<bool> SettleWorker::ProbeUndone(Event undone) {
  const std::shared_ptr<const Policy> policy = parts_.policy(undone.policy_version);
  const auto asker = AskerOf(undone, policy);
  if (!asker) co_return false;
  const SettleRule& rule = *asker->tool->settle;
  if (rule.search) {
    const auto read = co_await AskAbout(undone, policy, *asker->tool, *asker->backend, 1);
    co_return read.verdict == ProbeVerdict::kAbsent;
  }
  OwnRequest told(OwnRequest::Kind::kProbe, undone, policy, *asker->backend, 1);
  const Result<Answer> answer =
      co_await Ask(*asker->backend, ProbeRequest(undone, *asker->tool, *asker->backend),
                   limits::kProbeAnswerBytesMax, std::move(told));
  co_return answer&& StatesAbsence(rule, *answer);
}

Task<SecondLook> SettleWorker::ProbeAbsent(Event absent) {
  const std::shared_ptr<const Policy> policy = parts_.policy(absent.policy_version);
  const auto asker = AskerOf(absent, policy);
  if (!asker) co_return SecondLook::kNothing;
  const Tool* const tool = asker->tool;
  const Backend* const backend = asker->backend;
  const ProbeReading reading = co_await AskAbout(absent, policy, *tool, *backend, 1);
  if (parts_.probed) parts_.probed(tool->name, reading.verdict);
  if (reading.verdict == ProbeVerdict::kAbsent) co_return SecondLook::kAbsent;
  if (reading.verdict == ProbeVerdict::kNothing) co_return SecondLook::kNothing;
  if (!AsksByKey(*absent.settle)) co_return SecondLook::kPerhaps;
  Transition transition =
      PresentTransition(absent, FindingOf(reading, *tool), *tool, CapturesOf(absent, *policy),
                        KeyRuleOf(*tool, *backend));
  transition.from = absent.phase;
  NoteEffect(absent, policy.get(), transition);
  const auto recorded = co_await parts_.ledger.Record(std::move(transition), parts_.executor);
  co_return recorded ? SecondLook::kTookEffect : SecondLook::kNothing;
}

}  // namespace recourse
