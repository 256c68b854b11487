#include "filters/saga/step_resender.h"

#include <fmt/format.h>

#include <utility>

#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/outcome.h"
#include "filters/call/stored_call.h"
#include "filters/call/stored_request.h"
#include "filters/saga/undo_plan.h"
#include "filters/status_proofs.h"

namespace recourse {
namespace {

constexpr std::string_view kKeyIsOver =
    "its key may be honoured no longer (the backend's key_lives is over, a clock went back, or the "
    "ledger was restored), so its request is not sent again";

const Tool& ToolOf(const Event& event, const Policy& policy) {
  const Tool* const tool = policy.FindTool(event.tool);
  return tool == nullptr ? UnlistedTool() : *tool;
}

bool IsPromised(const Event& unknown, const Policy& policy) {
  const Backend* const backend = FindBackend(policy, unknown.backend);
  return backend != nullptr && DedupeDomain(*backend, KeyRuleOf(ToolOf(unknown, policy),
                                                                *backend)) == unknown.dedupe_domain;
}

bool IsKeyOwn(const Event& unknown, const KeyRule& rule) {
  if (unknown.key_field) return unknown.key_field->empty();
  const std::string* const key = FindHeader(unknown.request->headers, rule.at.name);
  return key == nullptr || *key == KeyPlaceholder();
}

// The request as it was sent; only credentials are of today.
std::expected<HttpRequest, std::string> RequestOf(const Event& unknown, const KeyRule& rule,
                                                  const Policy& credentials,
                                                  const ReadSecret& read_secret) {
  const bool is_own = IsKeyOwn(unknown, rule);
  const std::string key = is_own ? KeyText(rule.form, unknown.key) : SentKey(unknown, rule);
  RenderedRequest kept = WithKey(*unknown.request, key);
  HttpRequest request{std::move(kept.method), std::move(kept.target), std::move(kept.headers),
                      std::move(kept.body)};
  if (is_own && rule.at.is_field()) SetHeader(request.headers, rule.at.name, key);
  const Tool& tool = ToolOf(unknown, credentials);
  std::expected<void, std::string> added;
  if (tool.undo) added = AddSecrets(tool.undo->secrets, read_secret, request.headers);
  if (added && tool.approval && unknown.approval) {  // as it was sent when it was approved
    added = AddSecrets(tool.approval->secrets, read_secret, request.headers);
  }
  if (!added) return std::unexpected(std::move(added.error()));
  return request;
}

// Of a request that an earlier version has kept.
std::string KeyFieldIn(const RenderedRequest& request) {
  const std::string* const field = FindHeader(request.headers, "Idempotency-Key");
  return field == nullptr || *field == KeyPlaceholder() ? std::string() : *field;
}

NewOperation OperationOf(const Event& unknown, int attempts_max, Millis key_lives) {
  NewOperation call;
  call.event = unknown;
  call.event.key = unknown.base_key;
  call.event.detail = "sent again under its key, to find out whether it took effect";
  if (!call.event.key_field) call.event.key_field = KeyFieldIn(*unknown.request);
  if (unknown.window_ms > 0) call.dedupe_window = Millis(unknown.window_ms);
  call.may_resend = true;
  call.passes_fence = true;
  call.attempts_max = attempts_max;
  call.key_lives = key_lives;
  return call;
}

// What is left to say where no further try would tell more.
std::string WhyStuck(int status) {
  if (status == 401 || status == 403) {
    return fmt::format(
        "the backend answered {} when its request was sent again under its key; give its tool's "
        "undo the credentials for that (`credentials`: from_call, or a file where the backend has "
        "`key_scope: account`), then retry",
        status);
  }
  return fmt::format(
      "the backend answered {} when its request was sent again under its key, which does not tell",
      status);
}

// Of a try that sent nothing.
ResendOutcome OutcomeOf(const Begun& begun, std::uint32_t jitter) {
  switch (begun.kind) {
    case Begun::Kind::kReplay:
    case Begun::Kind::kCompensated:
      return {ResendOutcome::Kind::kSettled, {}, {}};
    case Begun::Kind::kRunning:
      return {ResendOutcome::Kind::kAgain, "it is being sent", UndoPause(1, {}, jitter)};
    case Begun::Kind::kExhausted:
    case Begun::Kind::kUnknown:
      if (begun.is_key_over) return {ResendOutcome::Kind::kStuck, std::string(kKeyIsOver), {}};
      return {ResendOutcome::Kind::kStuck,
              fmt::format("its request was sent {} times under its key, and no answer told",
                          begun.event.attempt),
              {}};
    default:
      return {ResendOutcome::Kind::kStuck, "it is not remembered as it should be", {}};
  }
}

}  // namespace

std::optional<std::string> ObjectionToResend(const Event& unknown, const Policy* began_under,
                                             const Policy* in_force) {
  if (unknown.is_locked) return unknown.detail;
  if (unknown.dedupe_domain == 0) return std::string();
  if (!unknown.request) {
    return "its request was not kept (too large, redacted, no room, or from an older version), so "
           "it cannot be sent again under its key";
  }
  if (!WasSentUnderOneKey(unknown)) {
    return "an earlier version has sent its request more than once, perhaps under different keys, "
           "so it is not sent again";
  }
  if (began_under == nullptr || began_under->version != unknown.policy_version) {
    return "the policy that it began under (" + unknown.policy_version + ") is lost";
  }
  if (in_force == nullptr || !IsPromised(unknown, *began_under) ||
      !IsPromised(unknown, *in_force)) {
    return "the policy names another backend or key_header now than its request was sent under, so "
           "it is not sent again";
  }
  const Tool* const tool = began_under->FindTool(unknown.tool);
  const bool has_others = tool != nullptr && tool->undo && !tool->undo->secrets.empty();
  if (has_others && !KeyRuleOf(ToolOf(unknown, *in_force), *FindBackend(*in_force, unknown.backend))
                         .is_accounts) {
    return "its request would be sent with other credentials than the agent's, for which the "
           "backend may not know its key: say `key_scope: account` of the backend if it does";
  }
  return std::nullopt;
}

Task<ResendOutcome> StepResender::Try(Event unknown, std::shared_ptr<const Policy> policy,
                                      std::shared_ptr<const Policy> credentials, int attempts_max,
                                      std::uint32_t jitter) {
  const Backend& backend = *FindBackend(*policy, unknown.backend);
  const Tool& tool = ToolOf(unknown, *policy);
  const OwnRoom room(parts_.keep);
  if (!room.is_there) {
    co_return ResendOutcome{ResendOutcome::Kind::kAgain, std::string(kNoRoom),
                            UndoPause(1, {}, jitter)};
  }
  const KeyRule& rule = KeyRuleOf(tool, backend);
  auto begun =
      co_await parts_.ledger.Begin(OperationOf(unknown, attempts_max, rule.lives), parts_.executor);
  if (!begun) {
    co_return ResendOutcome{ResendOutcome::Kind::kAgain, std::string(begun.error().detail()),
                            UndoPause(1, {}, jitter)};
  }
  if (begun->kind != Begun::Kind::kFresh) co_return OutcomeOf(*begun, jitter);
  const auto request = RequestOf(unknown, rule, *credentials, parts_.read_secret);
  OwnRequest told(OwnRequest::Kind::kResend, unknown, policy, backend, begun->event.attempt);
  Result<Answer> answer = co_await Send(*begun, std::move(told), tool,
                                        request ? &*request : nullptr, room.keeper.get());
  const bool is_durable = begun->commit->is_durable();
  if (!answer && answer.error().code() == ErrorCode::kLedgerUnavailable && !is_durable) {
    co_return ResendOutcome{ResendOutcome::Kind::kAgain, std::string(answer.error().detail()),
                            UndoPause(1, {}, jitter)};
  }
  if (answer) {
    StripOwnFields(answer->response.headers);
    answer->body_complete = answer->body_complete || EndsByItself(*answer);
  }
  const std::optional<Json> body =
      answer && ReadsAnswerBody(tool, &backend) ? ReadAnswerBody(*answer) : std::nullopt;
  const HttpRequest sent = request.value_or(HttpRequest());
  const StoredCall call(unknown, *policy, sent);
  CallValues values = call.Values();
  if (answer) {
    values.answer_status = answer->response.status;
    values.answer_headers = &answer->response.headers;
    values.answer_body = body ? &*body : nullptr;
  }
  values.key = SentKey(begun->event, rule);
  if (begun->event.state) values.before = &begun->event.state->before;
  Verdict verdict = Classify(tool, answer, values, &backend);
  if (!request) verdict.detail = request.error();
  const Verdict proven = OfResend(verdict, rule, tool, begun->event, values);
  Transition transition = MakeTransition(begun->event, proven, tool, answer, values);
  const bool is_unknown = transition.to == Phase::kUncertain;
  const auto recorded = co_await RecordWithRetry(parts_.ledger, std::move(transition),
                                                 parts_.executor, parts_.record_pause);
  if (recorded && !is_unknown) co_return ResendOutcome{ResendOutcome::Kind::kSettled, {}, {}};
  const bool asks_for_other =
      verdict.phase == Phase::kNotSent && ProofOf(verdict.http_status) == StatusProof::kComesAgain;
  if (recorded && (verdict.phase == Phase::kRejected || asks_for_other)) {
    co_return ResendOutcome{ResendOutcome::Kind::kStuck, WhyStuck(verdict.http_status), {}};
  }
  co_return ResendOutcome{ResendOutcome::Kind::kAgain, verdict.detail,
                          UndoPause(begun->event.attempt - 1, RetryAfterOf(answer), jitter)};
}

// Connects while the ledger commits.
Task<Result<Answer>> StepResender::Send(const Begun& begun, OwnRequest told, const Tool& tool,
                                        const HttpRequest* request, CallKeeper* keeper) {
  const Backend& backend = *told.backend;
  const MonoTime deadline =
      parts_.clock.Now() + tool.timeout.value_or(backend.timeout.value_or(limits::kWriteTimeout));
  std::optional<Backend> own;
  const auto connection = parts_.upstream.Open(CalledFor(&tool, backend, own));
  connection->MayOpenSession();
  connection->HoldAnswerFor(keeper);
  const Result<void> connected = co_await connection->Connected();
  const Result<void> durable = co_await begun.commit->Durable();
  connection->SendOnlyWith(begun.commit->permit());
  if (!durable) {
    co_return std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                                    "the event log cannot be written", Delivery::kNotSent));
  }
  if (!connected) co_return std::unexpected(connected.error());
  if (request == nullptr) {
    co_return std::unexpected(Error(
        ErrorCode::kInternal, "a credential of the request cannot be read", Delivery::kNotSent));
  }
  co_return co_await ExchangeTraced(*connection, *request, deadline, limits::kAnswerBytesMax,
                                    parts_.tracing, parts_.clock, std::move(told));
}

}  // namespace recourse
