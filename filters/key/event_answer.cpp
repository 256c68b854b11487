#include "filters/key/event_answer.h"

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/model/standing_notes.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr int kUnknownRetrySeconds = 2;
constexpr int kAccepted = 202;
constexpr std::string_view kNobodyKnows =
    "The call was sent and may have been executed, and nothing here can find out: that takes a "
    "human who looks at the backend. Do not make it again with other arguments. The same call "
    "never runs twice, and says this again until it is settled; go on without it, or tell the "
    "user.";

AnswerFacts Facts(const Event& event, AnswerSource origin) {
  AnswerFacts facts;
  facts.event = event.id;
  facts.flow = event.flow;
  facts.key = ToHex(event.key);
  facts.outcome = OutcomeWord(event);
  facts.origin = origin;
  return facts;
}

// A probe, a task, or the backend's own key may tell what became of it. What was approved is not
// sent again: that would be a second use of its approval.
CanBeAsked CanAsk(const Event& event) {
  const bool can = event.settle || event.task || (event.dedupe_domain != 0 && !event.approval);
  return can ? CanBeAsked::kYes : CanBeAsked::kNo;
}

WriteAnswer Problem(ErrorCode code, const Event& event, std::string_view detail) {
  ProblemFacts facts = FactsOfEvent(event);
  if (code == ErrorCode::kOutcomeUnknown) AddUnknown(CanAsk(event), facts);
  return MakeProblem(code, detail.empty() ? std::string_view(event.detail) : detail, facts);
}

// A backend that answered 202 has said how things stand; no other answer to an unsettled call has.
bool IsUnknown(const Event& event) {
  return event.phase == Phase::kUncertain && event.http_status != kAccepted;
}

// A refusal whose answer could not be kept.
WriteAnswer LostRefusal(const Event& event) { return Problem(ErrorCode::kBackendReset, event, {}); }

// Of a call that a human is asked about because of an earlier one.
std::string SuspicionText(const Event& event) {
  if (!event.approval || event.approval->repeats == 0) return {};
  return "It looks like a repeat of an earlier call, event " + PrintRowId(event.approval->repeats) +
         ". ";
}

}  // namespace

std::string_view OutcomeWord(const Event& event) {
  switch (event.phase) {
    case Phase::kSucceeded:
    case Phase::kAnswerLost:
    case Phase::kTombstone:
      return "executed";
    case Phase::kRejected:
    case Phase::kDenied:
    case Phase::kExpired:
      return "rejected";
    case Phase::kNotSent:
    case Phase::kProvenAbsent:
      return "not_executed";
    case Phase::kCompensated:
      return "compensated";
    case Phase::kUncertain:
      return IsUnknown(event) ? "unknown" : "pending";
    case Phase::kNone:
    case Phase::kClaimed:
    case Phase::kApproved:
    case Phase::kDispatching:
      return "pending";
  }
  return "unknown";
}

ProblemFacts FactsOfEvent(const Event& event) {
  ProblemFacts facts;
  facts.event = event.id;
  facts.flow = event.flow;
  facts.key = ToHex(event.key);
  return facts;
}

void AddUnknown(CanBeAsked can_be_asked, ProblemFacts& facts) {
  facts.retry_after_s = kUnknownRetrySeconds;
  if (can_be_asked == CanBeAsked::kYes) return;
  facts.never_settles = true;
  facts.advice = kNobodyKnows;
}

std::optional<ErrorCode> RefusalOf(const Begun& begun) {
  switch (begun.kind) {
    case Begun::Kind::kConflict:
      return ErrorCode::kKeyReused;
    case Begun::Kind::kSuspected:
      return ErrorCode::kSuspectedDuplicate;
    case Begun::Kind::kCompensated:
      return ErrorCode::kCompensated;
    case Begun::Kind::kSuperseded:
      return ErrorCode::kSuperseded;
    case Begun::Kind::kExpired:
      return ErrorCode::kKeyExpired;
    case Begun::Kind::kFlowClosed:
      return ErrorCode::kFlowClosed;
    case Begun::Kind::kTooOften:
      return ErrorCode::kQuotaExceeded;
    default:
      return std::nullopt;
  }
}

std::string EarlierCallDetail(ErrorCode refusal, const Event& earlier) {
  const std::string call =
      earlier.method + " " + earlier.path + " (event " + PrintRowId(earlier.operation) + ")";
  switch (refusal) {
    case ErrorCode::kKeyReused:
      return "this key belongs to an earlier call, " + call + ", with other arguments";
    case ErrorCode::kSuspectedDuplicate:
      return "this looks like a repeat of " + call + ", and the policy lets a human judge that";
    case ErrorCode::kFlowClosed:
      return "the flow " + earlier.flow + " takes no further writes";
    case ErrorCode::kCompensated:
      return "the effect of " + call + " was undone";
    case ErrorCode::kSuperseded:
      return call + " was executed, and a later write has changed what it did, or may have";
    case ErrorCode::kQuotaExceeded:
      return call + " was refused, and is repeated too often";
    default:
      return "the answer to " + call + " is no longer kept";
  }
}

WriteAnswer AnswerToHeld(const Event& event, const ApprovalRule* rule, const std::string& poll) {
  const bool is_conflict = rule != nullptr && rule->answer == ApprovalAnswer::kConflict;
  ProblemFacts facts = FactsOfEvent(event);
  facts.retry_after_s = limits::kPollSeconds;
  if (!is_conflict) facts.status = kAccepted;
  WriteAnswer answer = MakeProblem(
      ErrorCode::kApprovalPending,
      SuspicionText(event) + "The call waits for a human's approval and has not been executed",
      facts);
  Headers& headers = answer.response.headers;
  headers.emplace_back("Location", poll);
  if (is_conflict && rule->should_retry) AddShouldRetry(headers, *rule->should_retry);
  if (is_conflict) return answer;
  // An answer that clients take for a success: it says in their own words that it is none yet.
  const ErrorFacts& meaning = FactsOf(ErrorCode::kApprovalPending);
  SetHeader(headers, "Content-Type", "application/json");
  RemoveHeader(headers, "Proxy-Status");
  answer.response.body = ObjectText([&](JsonObject& json) {
    json.Text("status", "pending_approval");
    json.Text("outcome", "pending");
    json.Raw("operation", RowIdJson(event.operation));
    json.Raw("event", RowIdJson(event.id));
    json.Text("message", SuspicionText(event) + std::string(meaning.advice));
    json.Text("poll", poll);
  });
  answer.response.body.push_back('\n');
  return answer;
}

WriteAnswer AnswerToRepeat(const Event& event, AnswerSource origin) {
  if (event.answer_kept && event.answer.status != 0 && !IsUnknown(event)) {
    WriteAnswer replay;
    static constexpr std::size_t kOwnFields = 6;
    replay.response.headers.reserve(event.answer.headers.size() + kOwnFields);
    replay.response = event.answer;
    Decorate(replay.response, Facts(event, origin));
    return replay;
  }
  switch (event.phase) {
    case Phase::kSucceeded:
      return Problem(ErrorCode::kAnswerNotKept, event, {});
    case Phase::kAnswerLost:
      return Problem(ErrorCode::kAnswerLost, event, {});
    case Phase::kRejected:
      return LostRefusal(event);
    case Phase::kNotSent:
    case Phase::kProvenAbsent:
      return Problem(ErrorCode::kNotSent, event, {});
    case Phase::kCompensated:
      return Problem(ErrorCode::kCompensated, event, {});
    case Phase::kTombstone:
      return Problem(ErrorCode::kKeyExpired, event, {});
    case Phase::kDenied:
      return Problem(ErrorCode::kApprovalRejected, event, {});
    case Phase::kExpired:
      return Problem(event.cause == Cause::kPolicyChanged ? ErrorCode::kApprovalVoid
                                                          : ErrorCode::kApprovalExpired,
                     event, {});
    case Phase::kUncertain:
      return Problem(ErrorCode::kOutcomeUnknown, event, {});
    case Phase::kClaimed:
    case Phase::kApproved:
      return Problem(ErrorCode::kApprovalPending, event, "the call waits for a human");
    case Phase::kNone:
    case Phase::kDispatching:
      if (event.is_locked) return Problem(ErrorCode::kOutcomeUnknown, event, {});
      return Problem(ErrorCode::kInProgress, event, "the same call is still running");
  }
  return Problem(ErrorCode::kOutcomeUnknown, event, {});
}

WriteAnswer AnswerAtOtherDoor(const Event& event) {
  Event told = event;
  told.answer_kept = false;
  if (event.phase != Phase::kSucceeded) return AnswerToRepeat(told, AnswerSource::kReplay);
  std::string detail = "the same was done by " + event.tool + ": " + event.method + " " +
                       event.path + " (event " + PrintRowId(event.operation) + ")";
  if (!event.external_ref.empty()) detail += "; what it made is " + event.external_ref;
  return Problem(ErrorCode::kAnswerNotKept, told, detail);
}

WriteAnswer AnswerToOthers(const Event& event) {
  ProblemFacts facts;
  facts.event = event.id;
  facts.outcome = OutcomeWord(event);
  return MakeProblem(
      ErrorCode::kOtherCredentials,
      "an equal call was made with other credentials: event " + PrintRowId(event.operation), facts);
}

Outcome AnswerToFirst(const Event& event, const Verdict& verdict, Answer answer) {
  Outcome outcome;
  if (!verdict.problem) {
    outcome.answer = std::move(answer);
    AnswerFacts known = Facts(event, AnswerSource::kBackend);
    if (IsUnknown(event)) known.doubt = event.detail;
    Decorate(outcome.answer.response, known);
    return outcome;
  }
  ProblemFacts facts = FactsOfEvent(event);
  if (verdict.problem_status != 0) facts.status = verdict.problem_status;
  facts.proxy_error = verdict.proxy_error;
  facts.received_status = verdict.http_status;
  if (*verdict.problem == ErrorCode::kOutcomeUnknown) AddUnknown(CanAsk(event), facts);
  outcome.local = MakeProblem(*verdict.problem, verdict.detail, facts);
  return outcome;
}

void DecorateBegun(const Event& dispatching, HttpResponse& head) {
  Decorate(head, Facts(dispatching, AnswerSource::kBackend));
}

bool IsFinalWord(const Event& event) {
  return event.phase == Phase::kSucceeded || event.phase == Phase::kRejected;
}

bool MayStandNoMore(const Event& event) {
  return event.stands.kind != WriteKind::kNone && !event.stands.is_named &&
         StatusOf(event.phase) == Status::kSuccess;
}

bool IsSuperseded(const Event& event) { return event.stands.is_over || IsInDoubt(event.stands); }

}  // namespace recourse
