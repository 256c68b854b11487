#include "filters/settle/probe_sender.h"

#include <utility>

#include "filters/call/codecs.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/stored_call.h"
#include "filters/settle/absence.h"
#include "filters/settle/search.h"
#include "filters/settle/state_seen.h"
#include "policy/template/own_terms.h"
#include "proxy/base/limits.h"

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

std::optional<ProbeTarget> ProbeTargetOf(const Event& event,
                                         const std::shared_ptr<const Policy>& policy) {
  const bool is_its_own = policy && policy->version == event.policy_version;
  const Tool* const tool = is_its_own ? policy->FindTool(event.tool) : nullptr;
  const Backend* const backend = is_its_own ? FindBackend(*policy, event.backend) : nullptr;
  if (!event.settle || tool == nullptr || !tool->settle || backend == nullptr) {
    return std::nullopt;
  }
  return ProbeTarget{tool, backend};
}

Task<ProbeReading> ProbeSender::AskAbout(Event event, std::shared_ptr<const Policy> policy,
                                         ProbeTarget target, int number) {
  const Backend& backend = *target.backend;
  const SettleRule& rule = *target.tool->settle;
  std::optional<HttpRequest> request = ProbeRequest(event, *target.tool, backend);
  Search search;
  search.wanted =
      TermsOf(WithKey(*event.settle, ProbeKey(event, *target.tool, backend)).headers, kWhereTerm);
  Result<Answer> answer = std::unexpected(Error());
  while (request) {
    OwnRequest told(OwnRequest::Kind::kProbe, event, policy, backend, number);
    answer = co_await Ask(target, *request, limits::kProbeAnswerBytesMax, std::move(told));
    if (rule.asks_before) co_return JudgeState(*target.tool, event, answer);
    if (!rule.search) co_return JudgeProbe(rule, answer);
    request = TakePage(rule, backend, *request, answer, search);
  }
  co_return JudgeSearch(rule, search, answer);
}

Task<bool> ProbeSender::SaysGone(Event undone, std::shared_ptr<const Policy> policy,
                                 ProbeTarget target) {
  const SettleRule& rule = *target.tool->settle;
  if (rule.search) {
    const auto read = co_await AskAbout(undone, policy, target, 1);
    co_return read.verdict == ProbeVerdict::kAbsent;
  }
  OwnRequest told(OwnRequest::Kind::kProbe, undone, policy, *target.backend, 1);
  const Result<Answer> answer =
      co_await Ask(target, ProbeRequest(undone, *target.tool, *target.backend),
                   limits::kProbeAnswerBytesMax, std::move(told));
  co_return answer&& StatesAbsence(rule, *answer);
}

Task<TaskReport> ProbeSender::AskAboutTask(Event event, std::shared_ptr<const Policy> policy,
                                           ProbeTarget target) {
  TaskReport report = co_await AskAs(kTaskState, *event.task, event, policy, target);
  if (report.is_apart) {
    RenderedRequest asked = CodecOf(*target.backend).AskForTaskResult(*event.task);
    TaskReport result = co_await AskAs(kTaskResult, std::move(asked), event, policy, target);
    report.is_apart = result.state == TaskReport::State::kUnclear;
    report.final = std::move(result.final);
  }
  co_return report;
}

Task<Result<Answer>> ProbeSender::AskWhetherDone(Event event, std::shared_ptr<const Policy> policy,
                                                 ProbeTarget target, int number) {
  RenderedRequest& asked = *event.task;
  HttpRequest request{std::move(asked.method), target.backend->base_path + asked.target,
                      std::move(asked.headers), std::move(asked.body)};
  SetHeader(request.headers, "Accept-Encoding", "identity");
  SetHeader(request.headers, "Cache-Control", "no-cache");
  if (target.tool->undo && parts_.read_secret) {
    (void)AddSecrets(target.tool->undo->secrets, parts_.read_secret, request.headers);
  }
  OwnRequest told(OwnRequest::Kind::kProbe, event, std::move(policy), *target.backend, number);
  co_return co_await Ask(target, std::move(request), limits::kProbeAnswerBytesMax, std::move(told));
}

Task<TaskReport> ProbeSender::AskAs(std::string_view method, RenderedRequest asked,
                                    const Event& event, std::shared_ptr<const Policy> policy,
                                    ProbeTarget target) {
  HttpRequest request{std::move(asked.method), target.backend->endpoint, std::move(asked.headers),
                      std::move(asked.body)};
  SetHeader(request.headers, "Accept-Encoding", "identity");
  if (target.tool->undo && parts_.read_secret) {
    // Without them the server says so.
    (void)AddSecrets(target.tool->undo->secrets, parts_.read_secret, request.headers);
  }
  OwnRequest told(OwnRequest::Kind::kProbe, event, std::move(policy), *target.backend, 1);
  const Result<Answer> answer =
      co_await Ask(target, std::move(request), limits::kAnswerBytesMax, std::move(told));
  if (!answer || !answer->message) co_return TaskReport();
  co_return answer->codec->ReadTask(method, answer->response.body);
}

Task<Result<Answer>> ProbeSender::Ask(ProbeTarget target, HttpRequest request,
                                      std::size_t bytes_max, OwnRequest told) {
  // What was not asked is asked after the pause of a probe that tells nothing.
  const OwnRoom room(parts_.keep);
  if (!room.is_there) {
    co_return std::unexpected(Error(ErrorCode::kOverloaded, kNoRoom, Delivery::kNotSent));
  }
  std::optional<Backend> own;
  const std::unique_ptr<UpstreamConnection> connection =
      parts_.upstream.Open(CalledFor(target.tool, *target.backend, own));
  connection->MayOpenSession();
  connection->HoldAnswerFor(room.keeper.get());
  const Result<void> connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  co_return co_await ExchangeTraced(*connection, std::move(request),
                                    parts_.clock.Now() + limits::kProbeTimeout, bytes_max,
                                    parts_.tracing, parts_.clock, std::move(told));
}

}  // namespace recourse
