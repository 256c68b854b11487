#include "filters/call/outcome.h"

#include <fmt/format.h>

#include <algorithm>

#include "filters/answer_form.h"
#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/snapshots.h"
#include "filters/call/stored_response.h"
#include "filters/call/taken_on.h"
#include "filters/status_proofs.h"
#include "policy/template/late_reference.h"
#include "policy/template/own_terms.h"
#include "policy/undo/own_part.h"
#include "policy/undo/put_back.h"
#include "policy/undo/tenant_fields.h"
#include "policy/undo/undo_choice.h"

namespace recourse {
namespace {

constexpr int kGatewayTimeout = 504;

Verdict Unknown(Cause cause, std::string detail, int status, std::string_view proxy_error) {
  Verdict verdict;
  verdict.phase = Phase::kUncertain;
  verdict.cause = cause;
  verdict.detail = std::move(detail);
  verdict.problem = ErrorCode::kOutcomeUnknown;
  verdict.problem_status = status;
  verdict.proxy_error = proxy_error;
  return verdict;
}

// A refusal that proves that nothing was sent keeps its own code; codes of the read lane would say
// too little.
ErrorCode UnsentCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOverloaded:
    case ErrorCode::kDraining:
    case ErrorCode::kLoop:
    case ErrorCode::kHeaderTooLarge:
    case ErrorCode::kDenied:
    case ErrorCode::kUnknownBackend:
    case ErrorCode::kLedgerUnavailable:
    case ErrorCode::kMalformedRequest:
    case ErrorCode::kNotImplemented:
    case ErrorCode::kAddressRefused:
    case ErrorCode::kTlsCertificate:
    case ErrorCode::kTlsRefused:
    case ErrorCode::kTlsProtocol:
    case ErrorCode::kInternal:
      return code;
    default:
      return ErrorCode::kNotSent;
  }
}

bool IsConnectFailure(ErrorCode code) {
  return code == ErrorCode::kNotSent || code == ErrorCode::kAddressRefused ||
         code == ErrorCode::kTlsCertificate || code == ErrorCode::kTlsRefused ||
         code == ErrorCode::kTlsProtocol;
}

Verdict OfError(const Error& error) {
  const std::string detail(error.detail());
  if (error.delivery() == Delivery::kNotSent) {
    Verdict verdict;
    verdict.phase = Phase::kNotSent;
    verdict.problem = UnsentCode(error.code());
    verdict.cause = IsConnectFailure(*verdict.problem) ? Cause::kConnectFailed : Cause::kCanceled;
    verdict.detail = detail.empty() ? "the backend could not be reached" : detail;
    return verdict;
  }
  switch (error.code()) {
    case ErrorCode::kBackendTimeout:
      return Unknown(Cause::kTimeout,
                     detail.empty() ? "the backend did not answer in time" : detail,
                     kGatewayTimeout, "http_response_timeout");
    case ErrorCode::kBackendProtocol:
      return Unknown(Cause::kProtocolError,
                     detail.empty() ? "the backend's answer is not HTTP" : detail, kBadGateway,
                     "http_protocol_error");
    default:
      return Unknown(
          Cause::kConnectionLost,
          detail.empty() ? "the connection was lost before the backend's answer" : detail,
          kBadGateway, "connection_terminated");
  }
}

void AddDetail(std::string& detail, std::string_view text) {
  if (!detail.empty()) detail += "; ";
  detail += text;
}

// Its head went out before the work was done, and says nothing of its end.
Verdict OfCutStream(const Answer& answer) {
  Verdict verdict = answer.timed_out
                        ? Unknown(Cause::kTimeout, "the backend's stream had not ended in time",
                                  kGatewayTimeout, "http_response_timeout")
                        : Unknown(Cause::kConnectionLost, "the backend's stream was cut off",
                                  kBadGateway, "http_response_incomplete");
  verdict.http_status = answer.response.status;
  return verdict;
}

// Whether a success of that status says only that the backend has taken the call on.
bool IsTakenOn(const Tool& tool, int status) {
  return tool.settled_by || (status == kTakenOn && tool.success_when.empty() && tool.settle);
}

// One that is not there whole may have said that it failed, or where it is told that it is done.
bool MayHaveSaidMore(const Tool& tool, const Answer& answer, const CallValues& values) {
  if (answer.body_complete && !answer.over_cap) return false;
  if (IsTakenOn(tool, answer.response.status)) return true;
  const bool is_large = answer.over_cap && answer.withheld.empty();
  return !is_large && tool.success_when.empty() &&
         std::ranges::any_of(tool.failed_when, [&](const Condition& condition) {
           return !Evaluate(condition, values);
         });
}

Verdict OfSuccess(const Tool& tool, const Answer& answer, const CallValues& values) {
  const int status = answer.response.status;
  const bool is_stream = answer.relayed || IsEventStream(answer.response);
  if (is_stream && !answer.body_complete && !(answer.over_cap && !answer.relayed)) {
    return OfCutStream(answer);
  }
  for (const Condition& condition : tool.failed_when) {
    if (!Evaluate(condition, values).value_or(false)) continue;
    Verdict verdict;
    verdict.http_status = status;
    verdict.phase = Phase::kRejected;
    verdict.detail = fmt::format("the backend answered {}, and says {}", status, condition.text);
    ReplaceCutAnswer(answer, verdict);
    return verdict;
  }
  const Confirmed success = JudgeSuccess(tool, values);
  if (success != Confirmed::kYes) {
    return UnclearAnswer(
        answer, Cause::kAnswer,
        success == Confirmed::kNo
            ? fmt::format("the backend answered {}, but success_when does not hold", status)
            : fmt::format("the backend answered {}, but success_when cannot be read from it",
                          status));
  }
  const bool is_confirmed = !tool.success_when.empty();
  if (!is_confirmed && (status == 206 || status == 207)) {
    return UnclearAnswer(answer, Cause::kAnswer,
                         fmt::format("the backend answered {}: part of the work is open", status));
  }
  if (MayHaveSaidMore(tool, answer, values)) {
    return UnclearAnswer(answer, Cause::kAnswer, fmt::format("the backend answered {}", status));
  }
  Verdict verdict;
  verdict.http_status = status;
  if (!answer.body_complete && !answer.over_cap) {
    verdict.phase = Phase::kAnswerLost;
    verdict.detail = fmt::format("the backend answered {}, and its answer was cut off", status);
    verdict.problem = ErrorCode::kAnswerLost;
    return verdict;
  }
  verdict.phase = Phase::kSucceeded;
  if (!answer.withheld.empty()) {
    verdict.detail = fmt::format("the backend answered {}; {}", status, answer.withheld);
    verdict.problem = ErrorCode::kAnswerNotKept;
  } else if (answer.over_cap) {
    verdict.detail = fmt::format("the backend answered {} with more than {} bytes", status,
                                 limits::kAnswerBytesMax);
    if (!answer.relayed) verdict.problem = ErrorCode::kAnswerNotKept;
  } else if (IsTakenOn(tool, status)) {
    verdict.phase = Phase::kUncertain;
    verdict.http_status = kTakenOn;
    verdict.detail = tool.settled_by
                         ? "the backend has taken it on; settled_by tells when it is done"
                         : "the backend answered 202 and has not finished";  // the probe will tell
  }
  return verdict;
}

// The server's own word that the call may be made again.
bool MayBeRepeated(const Tool& tool, const Backend* backend, StatusProof proof,
                   const CallValues& values) {
  const bool is_keyed = backend != nullptr && KeyRuleOf(tool, *backend).at.exists();
  if (proof == StatusProof::kNone && is_keyed) return false;
  return AnyHolds(tool.repeat_if, values) ||
         (backend != nullptr && AnyHolds(backend->repeat_if, values));
}

// Whether a 402 says how to pay, so that the call comes again with a payment: by a challenge (RFC
// 9110 11.6.1), or by the field or the body of x402 (its specification, versions 2 and 1). Any
// other one is a refusal, such as that of a card.
bool AsksForPayment(const Answer& answer) {
  for (const char* const name : {"WWW-Authenticate", "PAYMENT-REQUIRED"}) {
    if (FindHeader(answer.response.headers, name) != nullptr) return true;
  }
  const std::optional<Json> body = ReadAnswerBody(answer);
  return body && body->Find("x402Version") != nullptr;
}

// Whether the policy says of this status itself that it is a refusal. A range names none: whoever
// writes `>= 400` hardly means a 504.
bool IsNamedFailure(const Tool& tool, const CallValues& values) {
  return std::ranges::any_of(tool.failed_when, [&](const Condition& condition) {
    return condition.left.source == Selector::Source::kAnswerStatus &&
           condition.op == Condition::Op::kEqual && Evaluate(condition, values) == true;
  });
}

// What the answer proves, of which its status is not everything.
StatusProof ProofIn(const Tool& tool, const Answer& answer, const CallValues& values) {
  const StatusProof proof = ProofOf(answer.response.status);
  const bool is_refused = (answer.response.status == 402 && !AsksForPayment(answer)) ||
                          AnyHolds(tool.failed_when, values);
  const bool has_no_effect = proof != StatusProof::kNone ||
                             tool.not_executed.Contains(answer.response.status) ||
                             IsNamedFailure(tool, values);
  return has_no_effect && is_refused && !IsFailure(proof) ? StatusProof::kRejectedNow : proof;
}

Verdict OfAnswer(const Tool& tool, const Answer& answer, const CallValues& values,
                 const Backend* backend) {
  const int status = answer.response.status;
  const Codec* const codec = answer.codec != nullptr ? answer.codec
                             : backend != nullptr    ? &CodecOf(*backend)
                                                     : nullptr;
  if (auto verdict = codec == nullptr ? std::nullopt : codec->Judge(tool, answer, values)) {
    return std::move(*verdict);
  }
  if (IsSuccess(status) && !tool.not_executed.Contains(status)) {
    return OfSuccess(tool, answer, values);
  }
  if (status < 200) {
    return Unknown(Cause::kProtocolError, fmt::format("the backend answered {}", status),
                   kBadGateway, "http_protocol_error");
  }
  Verdict verdict;
  verdict.http_status = status;
  verdict.detail = fmt::format("the backend answered {}", status);
  const StatusProof proof = ProofIn(tool, answer, values);
  if (IsFailure(proof) && !MayBeRepeated(tool, backend, proof, values)) {
    verdict.phase = Phase::kRejected;
    if (proof == StatusProof::kRejectedNow) verdict.cause = Cause::kRejectedNow;
  } else if (proof != StatusProof::kNone || tool.not_executed.Contains(status) ||
             MayBeRepeated(tool, backend, proof, values)) {
    verdict.phase = Phase::kNotSent;  // no effect, and a repeat may run at once
  } else {
    return UnclearAnswer(answer, Cause::kServerError,
                         verdict.detail + ", which does not tell whether it acted");
  }
  ReplaceCutAnswer(answer, verdict);
  return verdict;
}

// What asks about the task that the server has made of the call: with the credentials that its undo
// and settle requests have of the call.
std::optional<RenderedRequest> TaskOf(const Event& dispatching, const Tool& tool,
                                      const Answer& answer, const Headers& of_call) {
  Headers fields = dispatching.settle ? dispatching.settle->headers : Headers();
  for (const char* const name : {"Content-Type", "Content-Length"}) RemoveHeader(fields, name);
  DropTerms(fields);
  for (const std::string& name : tool.undo ? tool.undo->from_call : std::vector<std::string>()) {
    const std::string* const value = FindHeader(of_call, name);
    if (value != nullptr) SetHeader(fields, name, *value);
  }
  if (!AddTenants(of_call, tool.redact, "POST", fields)) return std::nullopt;
  answer.codec->KeepSession(of_call, fields);
  return answer.codec->AskAboutTask(answer.response.body, std::move(fields));
}

// What asks whether a call that was taken on is done.
void AddQuestion(const Tool& tool, CallValues values, Transition& transition) {
  values.external_ref = transition.external_ref;
  auto question = Render(tool.settled_by->request, values);
  if (question && !AskAtLink(*tool.settled_by, values, *question)) question = Malformed(kNoLink);
  const bool reaches_tenant =
      !question || values.headers == nullptr ||
      AddTenants(*values.headers, tool.redact, question->method, question->headers);
  if (!reaches_tenant) question = Malformed(kTenantRedacted);
  if (question) {
    if (values.headers != nullptr) {
      CodecOf(tool).KeepSession(*values.headers, question->headers);
    }
    transition.task = std::move(*question);
  } else {
    AddDetail(transition.detail, "it cannot be asked: ");
    transition.detail += question.error().detail();
  }
}

void AddFollowUps(const Tool& tool, const Digest& key, CallValues values, Transition& transition) {
  const bool is_certain = transition.to != Phase::kUncertain;
  if (tool.external_ref) {
    transition.external_ref = ExternalRefText(Select(*tool.external_ref, values));
    if (transition.external_ref.empty() && is_certain) {
      AddDetail(transition.detail, "no external_ref at " + tool.external_ref->text);
    }
    values.external_ref = transition.external_ref;
  }
  if (!tool.undo) return;
  const std::vector<std::string> set = PlacesToPutBack(tool, values);
  auto undo = MakeUndo(tool, values, set);
  if (!undo && !is_certain && values.external_ref.empty()) {
    // Whatever settles the outcome knows the reference, but not the call any more.
    values.external_ref = LateReference(ToHex(key));
    undo = MakeUndo(tool, values, set);
  }
  if (undo && values.headers != nullptr &&
      !AddTenants(*values.headers, tool.redact, undo->method, undo->headers)) {
    undo = std::unexpected(std::string(kTenantRedacted));
  }
  if (undo) {
    // They are sealed like the rest of it, and shown to nobody.
    for (const std::string& name : tool.undo->from_call) {
      const std::string* value =
          values.headers == nullptr ? nullptr : FindHeader(*values.headers, name);
      if (value != nullptr) undo->headers.emplace_back(name, *value);
    }
    if (values.headers != nullptr) CodecOf(tool).KeepSession(*values.headers, undo->headers);
    transition.undo = std::move(*undo);
  } else if (is_certain) {
    AddDetail(transition.detail, kNoUndoMade);
    transition.detail += undo.error();
  }
}

CallValues WithoutAnswer(CallValues values) {
  values.answer_status = 0;
  values.answer_headers = nullptr;
  values.answer_body = nullptr;
  return values;
}

}  // namespace

bool IsProbedAfterUndo(const Tool& tool) {
  return std::ranges::any_of(UndosOf(tool), [](const UndoRule* undo) { return undo->then_probe; });
}

Verdict Classify(const Tool& tool, const Result<Answer>& result, const CallValues& values,
                 const Backend* backend) {
  return result ? OfAnswer(tool, *result, values, backend) : OfError(result.error());
}

namespace {

// A failure is told again under its key, too, with the same field: of an error only what its status
// or its body says tells that the first one happened.
bool IsHit(const KeyRule& rule, const CallValues& values) {
  constexpr int kFirstError = 400;
  return std::ranges::any_of(rule.hit, [&](const Condition& condition) {
    const bool is_field = condition.left.source == Selector::Source::kAnswerHeader;
    const bool may_tell = !is_field || values.answer_status < kFirstError;
    return may_tell && Evaluate(condition, values).value_or(false);
  });
}

}  // namespace

Verdict OfResend(Verdict verdict, const KeyRule& rule, const Tool& tool, const Event& resend,
                 const CallValues& values) {
  if (rule.answers_latest) verdict.tells = Verdict::Tells::kLater;
  const bool is_unproven =
      verdict.phase != Phase::kSucceeded && verdict.phase != Phase::kAnswerLost;
  const bool is_key_own = resend.key_field && resend.key_field->empty();
  if (is_unproven && is_key_own && !tool.settle && IsHit(rule, values)) {
    verdict.phase = Phase::kAnswerLost;
    verdict.cause = Cause::kAnswer;
    verdict.detail += "; by key_hit an earlier attempt took effect";
    verdict.problem = ErrorCode::kAnswerLost;
    verdict.problem_status = 0;
    verdict.proxy_error = {};
    verdict.tells = Verdict::Tells::kNothing;
    return verdict;
  }
  if (verdict.phase != Phase::kNotSent && verdict.phase != Phase::kRejected) return verdict;
  verdict.phase = Phase::kUncertain;
  verdict.detail += "; the outcome of an earlier attempt is still unknown";
  if (verdict.problem) verdict.problem = ErrorCode::kOutcomeUnknown;
  return verdict;
}

Verdict OfTwin(Verdict verdict, const Tool& tool, const Event& dispatching,
               const CallValues& values) {
  const bool is_refused = verdict.phase == Phase::kRejected || verdict.phase == Phase::kNotSent;
  const bool is_key_own = !dispatching.key_field || dispatching.key_field->empty() ||
                          (tool.settle && tool.settle->mark.exists());
  const bool can_tell = dispatching.cause == Cause::kResend ||
                        (is_key_own && dispatching.settle && AsksByKey(*dispatching.settle));
  if (!is_refused || !can_tell || !AnyHolds(tool.happened_if, values)) return verdict;
  verdict.phase = Phase::kUncertain;
  verdict.cause = Cause::kAnswer;
  verdict.detail += "; by happened_if it may have taken effect before";
  if (verdict.problem) verdict.problem = ErrorCode::kOutcomeUnknown;
  return verdict;
}

Verdict ClassifyAttempt(const Event& dispatching, const Tool& tool, const Backend& backend,
                        const Result<Answer>& result, const CallValues& values) {
  Verdict verdict = OfTwin(Classify(tool, result, values, &backend), tool, dispatching, values);
  if (dispatching.cause != Cause::kResend) return verdict;
  return OfResend(std::move(verdict), KeyRuleOf(tool, backend), tool, dispatching, values);
}

Transition MakeTransition(const Event& dispatching, const Verdict& verdict, const Tool& tool,
                          const Result<Answer>& result, const CallValues& values) {
  Transition transition = Transition::Of(dispatching);
  transition.from = Phase::kDispatching;
  transition.to = verdict.phase;
  transition.cause = verdict.cause;
  transition.detail = verdict.detail;
  transition.http_status = verdict.http_status;
  if (result && !verdict.problem && !result->over_cap &&
      result->response.body.size() <= limits::kAnswerKeptBytesMax) {
    auto kept = StoredResponse(*result, tool.keep_headers, tool.redact);
    transition.answer_kept = kept.has_value();
    if (kept) transition.answer = std::move(*kept);
    if (!kept) AddDetail(transition.detail, "its answer is not kept: redact needs it to be JSON");
  }
  if (MayHaveEffect(verdict.phase)) {
    const bool tells = verdict.tells != Verdict::Tells::kNothing;
    AddFollowUps(tool, dispatching.key, tells ? values : WithoutAnswer(values), transition);
  }
  if (verdict.phase == Phase::kSucceeded && dispatching.state && tool.before &&
      verdict.tells == Verdict::Tells::kAll) {
    const StateKept& state = *dispatching.state;
    transition.ours = StateLeft(tool, state.ours, values);
    const UndoRule* const undo = transition.undo ? UndoOf(&tool, *transition.undo) : nullptr;
    if (undo != nullptr) {
      transition.ours = OwnPart(tool, *undo, dispatching.method, values, state.before, state.ours,
                                std::move(*transition.ours));
    }
  }
  transition.keeps_settle = IsProbedAfterUndo(tool);
  if (result && result->message == MessageKind::kTask && dispatching.is_step &&
      values.headers != nullptr) {
    transition.task = TaskOf(dispatching, tool, *result, *values.headers);
  }
  const bool is_taken_on = verdict.phase == Phase::kUncertain && verdict.http_status == kTakenOn;
  const bool asks = is_taken_on && tool.settled_by && !verdict.problem;
  // A server that has made a task of it tells by that.
  if (asks && (!result || result->message != MessageKind::kTask))
    AddQuestion(tool, values, transition);
  return transition;
}

bool EndsByItself(const Answer& answer) {
  if (!answer.until_close || answer.over_cap) return false;
  if (IsEventStream(answer.response)) return EndsStream(answer.response.body);
  const std::string* type = FindHeader(answer.response.headers, "Content-Type");
  if (type == nullptr || !ToLower(*type).contains("json")) return true;
  const auto json = ReadJsonAnswer(answer.response);
  return json && json->kind != Json::Kind::kNumber;
}

bool ReadsAnswerBody(const Tool& tool, const Backend* backend) {
  if (backend != nullptr && CodecOf(*backend).JudgesByBody()) return true;
  const auto is_answer_body = [](const Selector& selector) {
    return selector.source == Selector::Source::kAnswerBody;
  };
  if (tool.external_ref && is_answer_body(*tool.external_ref)) return true;
  const auto reads_body = [&](const Condition& condition) {
    return is_answer_body(condition.left);
  };
  const auto one_reads = [&](const std::vector<Condition>& conditions) {
    return std::any_of(conditions.begin(), conditions.end(), reads_body);
  };
  if (one_reads(tool.success_when) || one_reads(tool.failed_when) || one_reads(tool.repeat_if) ||
      one_reads(tool.happened_if) ||
      (backend != nullptr &&
       (one_reads(backend->repeat_if) || one_reads(KeyRuleOf(tool, *backend).hit)))) {
    return true;
  }
  if (tool.before) return true;
  if (tool.settled_by &&
      ((tool.settled_by->at && is_answer_body(*tool.settled_by->at)) ||
       std::ranges::any_of(SelectorsOf(tool.settled_by->request), is_answer_body))) {
    return true;
  }
  return std::ranges::any_of(UndosOf(tool), [&](const UndoRule* undo) {
    return one_reads(undo->when) || std::ranges::any_of(SelectorsOf(undo->request), is_answer_body);
  });
}

}  // namespace recourse
