#include "filters/saga/undo_sender.h"

#include <fmt/format.h>

#include <utility>

#include "filters/kept_answer.h"
#include "filters/stored_call.h"
#include "proxy/base/crash_point.h"

namespace recourse {
namespace {

constexpr std::string_view kHidden = "(hidden)";
constexpr std::string_view kNoCredential = "a credential of the undo request cannot be read";

bool IsRepeatable(const UndoRule* rule, const Backend& backend) {
  if (rule == nullptr) return false;
  return rule->repeatable == Repeatable::kYes ||
         (rule->repeatable == Repeatable::kByKey && !backend.key_header.empty());
}

HttpRequest BareRequest(const Event& step, const Backend& backend) {
  HttpRequest request{step.undo->method, backend.base_path + step.undo->target, step.undo->headers,
                      step.undo->body};
  SetHeader(request.headers, "Accept-Encoding", "identity");
  if (!backend.key_header.empty()) {
    SetHeader(request.headers, backend.key_header, ToHex(UndoKeyOf(step.key, step.operation)));
  }
  return request;
}

NewOperation OperationOf(const Event& step, const Backend& backend) {
  NewOperation call;
  call.event.key = UndoKeyOf(step.key, step.operation);
  call.event.args_hash = call.event.key;
  call.event.undoes = step.operation;
  call.event.tool = step.tool;
  call.event.backend = backend.name;
  call.event.caller = step.caller;
  call.event.trace_id = step.trace_id;
  call.event.flow = step.flow;
  call.event.policy_version = step.policy_version;
  const HttpRequest request{step.undo->method, step.undo->target, step.undo->headers,
                            step.undo->body};
  NameCall(backend, request, request.target.substr(0, request.target.find('?')), call.event);
  if (step.stands.undo != Mark{}) {
    call.event.resource = AsDigest(step.stands.undo);
    call.event.stands.kind = KindOfMethod(request.method);
    call.event.stands.is_named = true;
  }
  return call;
}

// Why the undo did not come through, in the backend's words. Without its tool nobody knows what of
// that has to be redacted.
void KeepWhatWasSaid(const Answer& answer, const Tool* tool, Transition& transition) {
  if (tool == nullptr) return;
  auto kept = answer.mcp ? KeptMcpAnswer(answer.response, tool->keep_headers, tool->redact)
                         : KeptAnswer(answer.response, tool->keep_headers, tool->redact);
  if (!kept) return;
  CutToSaid(*kept);
  transition.answer_kept = true;
  transition.answer = std::move(*kept);
}

}  // namespace

std::expected<HttpRequest, std::string> UndoRequest(const Event& step, const UndoRule* rule,
                                                    const Backend& backend,
                                                    const ReadSecret& read_secret) {
  HttpRequest request = BareRequest(step, backend);
  if (rule == nullptr) return request;
  if (auto added = AddSecrets(rule->secrets, read_secret, request.headers); !added) {
    return std::unexpected(std::move(added.error()));
  }
  return request;
}

HttpRequest UndoPreview(const Event& step, const UndoRule* rule, const Backend& backend) {
  HttpRequest request = BareRequest(step, backend);
  if (FindHeader(request.headers, "Mcp-Session-Id") != nullptr) {
    SetHeader(request.headers, "Mcp-Session-Id", std::string(kHidden));
  }
  if (rule == nullptr) return request;
  for (const SecretHeader& secret : rule->secrets) {
    SetHeader(request.headers, secret.name, std::string(kHidden));
  }
  for (const std::string& name : rule->from_call) {
    if (FindHeader(request.headers, name) != nullptr) {
      SetHeader(request.headers, name, std::string(kHidden));
    }
  }
  return request;
}

Task<UndoOutcome> UndoSender::Try(const Event& step, std::shared_ptr<const Policy> policy,
                                  int attempts_max, bool by_human, std::uint32_t jitter) {
  const Backend* const backend = policy ? FindBackend(*policy, step.backend) : nullptr;
  if (backend == nullptr) {
    co_return UndoOutcome{
        UndoOutcome::Kind::kStuck, "no policy says where backend " + step.backend + " is", {}};
  }
  const OwnRoom room(parts_.keep);
  if (!room.is_there) {
    co_return UndoOutcome{UndoOutcome::Kind::kAgain, std::string(kNoRoom),
                          UndoPause(1, {}, jitter)};
  }
  const Tool* const tool = policy->FindTool(step.tool);
  const UndoRule* const rule = tool != nullptr && tool->undo ? &*tool->undo : nullptr;
  NewOperation call = OperationOf(step, *backend);
  call.attempts_max = attempts_max;
  const bool may_repeat = by_human || IsRepeatable(rule, *backend);
  call.may_resend = may_repeat;
  const bool rests_on_key = rule != nullptr && rule->repeatable == Repeatable::kByKey;
  if (rests_on_key && !by_human) call.key_lives = backend->key_lives;
  // A refusal stands until a human says otherwise.
  call.failed_ttl.reset();
  if (!by_human) call.failed_ttl = Millis::max();
  auto begun = co_await parts_.ledger.Begin(std::move(call), parts_.executor);
  if (!begun) {
    const bool is_ours = begun.error().code() == ErrorCode::kInternal;
    co_return UndoOutcome{is_ours ? UndoOutcome::Kind::kStuck : UndoOutcome::Kind::kAgain,
                          std::string(begun.error().detail()), UndoPause(1, {}, jitter)};
  }
  switch (begun->kind) {
    case Begun::Kind::kFresh:
      co_return co_await Send(step, policy, rule, *backend, std::move(*begun), room.keeper.get(),
                              jitter);
    case Begun::Kind::kSuperseded:
      co_return UndoOutcome{
          UndoOutcome::Kind::kNotNeeded,
          fmt::format("step {} ({}) needed no undo: a later call has removed what it made",
                      step.operation, step.tool),
          {}};
    case Begun::Kind::kRunning:
      co_return UndoOutcome{UndoOutcome::Kind::kAgain, "the undo is running",
                            UndoPause(1, {}, jitter)};
    case Begun::Kind::kReplay:
      if (begun->event.phase == Phase::kSucceeded) {
        co_return UndoOutcome{UndoOutcome::Kind::kDone, {}, {}};
      }
      co_return UndoOutcome{UndoOutcome::Kind::kStuck, begun->event.detail, {}};
    case Begun::Kind::kUnknown:
      co_return UndoOutcome{
          UndoOutcome::Kind::kStuck,
          may_repeat
              ? fmt::format("its undo request was tried {} times, and nobody knows whether it "
                            "took effect: {}",
                            begun->event.attempt, begun->event.detail)
              : "nobody knows whether its undo request took effect, and the policy does not say "
                "that it may be repeated",
          {}};
    case Begun::Kind::kExhausted:
      co_return UndoOutcome{UndoOutcome::Kind::kStuck,
                            fmt::format("its undo request was tried {} times: {}",
                                        begun->event.attempt, begun->event.detail),
                            {}};
    default:
      co_return UndoOutcome{
          UndoOutcome::Kind::kStuck, "its undo is not remembered as it should be", {}};
  }
}

Task<UndoOutcome> UndoSender::Send(const Event& step, std::shared_ptr<const Policy> policy,
                                   const UndoRule* rule, const Backend& backend, Begun begun,
                                   CallKeeper* keeper, std::uint32_t jitter) {
  const bool is_resend = begun.event.cause == Cause::kResend;
  const MonoTime deadline = parts_.clock.Now() + backend.timeout.value_or(limits::kWriteTimeout);
  const auto connection = parts_.upstream.Open(backend);
  connection->MayOpenSession();
  connection->HoldAnswerFor(keeper);
  const Result<void> connected = co_await connection->Connected();
  const Result<void> durable = co_await begun.commit->Durable();
  if (!durable) {
    co_return UndoOutcome{UndoOutcome::Kind::kAgain, "the event log cannot be written",
                          UndoPause(1, {}, jitter)};
  }
  RC_CRASH_POINT("k18");
  std::string unreadable;  // why the request cannot be completed
  Result<Answer> answer = connected ? Result<Answer>(Answer()) : std::unexpected(connected.error());
  if (connected) {
    auto request = UndoRequest(step, rule, backend, parts_.read_secret);
    if (request) {
      OwnRequest told(OwnRequest::Kind::kUndo, step, policy, backend, begun.event.attempt);
      answer = co_await ExchangeTraced(*connection, *request, deadline, limits::kAnswerBytesMax,
                                       parts_.tracing, parts_.clock, std::move(told));
    } else {
      unreadable = std::move(request.error());
      answer = std::unexpected(Error(ErrorCode::kInternal, kNoCredential, Delivery::kNotSent));
    }
  }
  RC_CRASH_POINT("k20");
  UndoVerdict verdict = JudgeUndoBy(rule, answer, is_resend);
  if (!unreadable.empty()) verdict.detail = std::move(unreadable);
  co_return co_await Record(begun.event, policy->FindTool(step.tool), std::move(verdict),
                            std::move(answer), jitter);
}

Task<UndoOutcome> UndoSender::Record(const Event& undo, const Tool* tool, UndoVerdict verdict,
                                     Result<Answer> answer, std::uint32_t jitter) {
  const UndoRule* const rule = tool != nullptr && tool->undo ? &*tool->undo : nullptr;
  Transition transition;
  transition.operation = undo.operation;
  transition.from = Phase::kDispatching;
  transition.attempt = undo.attempt;
  transition.to = verdict.phase;
  transition.cause = verdict.cause;
  transition.http_status = verdict.http_status;
  transition.detail = verdict.detail;
  if (answer && verdict.http_status != 0 && verdict.phase != Phase::kSucceeded) {
    KeepWhatWasSaid(*answer, tool, transition);
  }
  const auto recorded = co_await RecordSurely(parts_.ledger, std::move(transition), parts_.executor,
                                              parts_.record_pause);
  if (!recorded) {
    co_return UndoOutcome{UndoOutcome::Kind::kAgain, std::string(recorded.error().detail()),
                          UndoPause(1, {}, jitter)};
  }
  switch (verdict.phase) {
    case Phase::kSucceeded:
      co_return UndoOutcome{UndoOutcome::Kind::kDone, {}, {}};
    case Phase::kRejected:
      co_return UndoOutcome{
          UndoOutcome::Kind::kStuck, "its undo request was refused: " + verdict.detail, {}};
    case Phase::kUncertain:
      if (verdict.is_refused) {
        co_return UndoOutcome{UndoOutcome::Kind::kStuck,
                              "its undo request was refused after a try that nobody knows the "
                              "outcome of: " +
                                  verdict.detail,
                              {}};
      }
      if (rule == nullptr || rule->repeatable == Repeatable::kNo) {
        co_return UndoOutcome{UndoOutcome::Kind::kStuck,
                              "nobody knows whether its undo request took effect (" +
                                  verdict.detail +
                                  "), and the policy does not say that it may be repeated",
                              {}};
      }
      break;
    default:
      break;
  }
  co_return UndoOutcome{UndoOutcome::Kind::kAgain, verdict.detail,
                        UndoPause(undo.attempt, RetryAfterOf(answer), jitter)};
}

}  // namespace recourse
