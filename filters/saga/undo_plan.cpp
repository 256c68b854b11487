#include "filters/saga/undo_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/call/taken_on.h"
#include "filters/codec.h"
#include "filters/ledger/model/row_id.h"
#include "policy/template/late_reference.h"
#include "policy/undo/put_back.h"
#include "policy/undo/tenant_fields.h"
#include "proxy/base/backoff.h"

namespace recourse {
namespace {

// Answers of a server that did not act and will not act on the same request, either. A conflict is
// one: what is to be undone has moved on, unless the server asks to come again.
bool IsRefusal(const HttpResponse& response) {
  const int status = response.status;
  if (status == 409) return FindHeader(response.headers, "Retry-After") == nullptr;
  return status >= 400 && status <= 499 && status != 408 && status != 423 && status != 424 &&
         status != 425 && status != 429;
}

// `is_readable`: one of the conditions could be read from it.
bool OneHolds(const std::vector<Condition>& conditions, const Answer& answer, bool& is_readable) {
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues values;
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  for (const Condition& condition : conditions) {
    const std::optional<bool> holds = Evaluate(condition, values);
    if (holds && *holds) return true;
    is_readable = is_readable || holds;
  }
  return false;
}

// "somebody has changed /title, /labels"; values are for those who may see them.
std::string WhatChanged(const Snapshot& ours, const Snapshot& now) {
  if (now.is_gone) return "somebody has deleted it";
  if (ours.is_gone) return "somebody has made it again";
  std::string names;
  for (std::size_t i = 0; i < std::min(ours.places.size(), now.places.size()); ++i) {
    const Snapshot mine{.places = {ours.places[i]}}, theirs{.places = {now.places[i]}};
    if (HaveSamePlaces(mine, theirs)) continue;
    names += (names.empty() ? "" : ", ") + now.places[i].first;
  }
  return "somebody has changed " + (names.empty() ? "something else in it" : names);
}

// What a message says that is no result. Refusals over HTTP alone, of a session say, are never
// taken for `done`, whatever their status.
UndoVerdict JudgeFailure(const UndoRule* rule, const Answer& answer, bool is_resend) {
  UndoVerdict verdict = JudgeUndo(StatusSet(), answer, is_resend);
  if (!answer.message || *answer.message == MessageKind::kError) return verdict;
  verdict.cause = Cause::kAnswer;
  bool is_readable = false;
  if (*answer.message == MessageKind::kToolError && rule != nullptr &&
      OneHolds(rule->done_when, answer, is_readable)) {
    verdict.phase = Phase::kSucceeded;
    return verdict;
  }
  const std::string words = answer.codec->FailureText(answer.response.body);
  const bool was_executed =
      *answer.message == MessageKind::kToolError || *answer.message == MessageKind::kTask;
  verdict.is_refused = !was_executed;
  verdict.phase = was_executed || is_resend ? Phase::kUncertain : Phase::kRejected;
  verdict.detail = *answer.message == MessageKind::kTask
                       ? "the server has taken it on, and not finished"
                   : was_executed ? "the tool of the undo failed: " + words
                                  : "the server refused the undo: " + words;
  return verdict;
}

}  // namespace

const FlowStep* NextToUndo(const FlowState& state, const std::vector<std::uint64_t>& passed) {
  // Rows of several streams have no order. But steps stand as they began, and one that builds on
  // another began after that one's success.
  const bool is_shared = UnpackRowId(state.number).stream != 0;
  const FlowStep* next = nullptr;
  for (const FlowStep& step : state.steps) {
    if (!NeedsUndo(step)) continue;
    if (std::find(passed.begin(), passed.end(), step.operation) != passed.end()) continue;
    if (next == nullptr || is_shared || step.success > next->success) next = &step;
  }
  return next;
}

bool Removes(const Event& removal, const Event& earlier) {
  if (removal.stands.kind != WriteKind::kDelete) return false;
  const std::vector<Mark> left = LeftBy(removal.stands, removal.resource);
  return std::ranges::any_of(RemovalsOf(earlier.stands, earlier.resource), [&](const Mark& mark) {
    return std::ranges::find(left, mark) != left.end();
  });
}

UndoDecision DecideUndo(const Event& event, const Tool* tool, const Flow* flow) {
  using Kind = UndoDecision::Kind;
  if (event.is_locked) return {Kind::kPark, event.tool + ": " + event.detail};
  const bool stays = flow == nullptr || !flow->undo_before_pivot;
  if (tool != nullptr && tool->pivot && stays) {
    return {Kind::kPark, event.tool + " is the flow's pivot: what came before it is not undone"};
  }
  if (event.undo && LacksReference(*event.undo, ToHex(event.key))) {
    return {Kind::kPark, event.tool + ": nobody knows the reference that its undo request needs"};
  }
  if (event.undo) return {Kind::kSend, {}};
  if (tool != nullptr && tool->undo) {
    const auto why = event.detail.find(kNoUndoMade);
    return {Kind::kPark,
            event.tool + ": its undo request could not be made" +
                (why == std::string::npos ? " from the answer"
                                          : ": " + event.detail.substr(why + kNoUndoMade.size()))};
  }
  if (tool != nullptr && !tool->reason.empty()) {
    return {Kind::kSkip, event.tool + " needs no undo: " + tool->reason};
  }
  return {Kind::kPark, event.tool + " cannot be undone"};
}

UndoVerdict JudgeUndo(const StatusSet& done, const Result<Answer>& answer, bool is_resend) {
  UndoVerdict verdict;
  if (!answer) {
    const Error& error = answer.error();
    verdict.detail = error.detail().empty() ? "no answer" : std::string(error.detail());
    verdict.cause = Cause::kConnectionLost;
    if (error.delivery() == Delivery::kNotSent) {
      verdict.phase = is_resend ? Phase::kUncertain : Phase::kNotSent;
      verdict.cause = Cause::kConnectFailed;
    } else if (error.code() == ErrorCode::kBackendTimeout) {
      verdict.cause = Cause::kTimeout;
    } else if (error.code() == ErrorCode::kBackendProtocol) {
      verdict.cause = Cause::kProtocolError;
    }
    return verdict;
  }
  const int status = answer->response.status;
  verdict.http_status = status;
  verdict.detail = fmt::format("the backend answered {}", status);
  if (done.Contains(status)) {
    verdict.phase = Phase::kSucceeded;
  } else if (status == 425 || status == 429) {
    verdict.phase = is_resend ? Phase::kUncertain : Phase::kNotSent;
  } else {
    verdict.is_refused = IsRefusal(answer->response);
    if (verdict.is_refused && !is_resend) {
      verdict.phase = Phase::kRejected;
    } else {
      verdict.cause = Cause::kServerError;
    }
  }
  return verdict;
}

UndoVerdict JudgeUndoBy(const UndoRule* rule, const Result<Answer>& answer, bool is_resend) {
  if (answer && answer->tells_no_result()) {
    return JudgeFailure(rule, *answer, is_resend);
  }
  StatusSet done;
  done.Add(200, 299);
  UndoVerdict verdict = JudgeUndo(rule == nullptr ? done : rule->done, answer, is_resend);
  bool is_read = false;
  if (rule != nullptr && answer && OneHolds(rule->done_if, *answer, is_read)) {
    verdict.phase = Phase::kSucceeded;
    verdict.cause = Cause::kAnswer;
    verdict.is_refused = false;
    verdict.detail += ", which `done` takes for undone";
    return verdict;
  }
  if (rule == nullptr || rule->done_when.empty() || verdict.phase != Phase::kSucceeded) {
    return verdict;
  }
  bool is_readable = false;
  if (OneHolds(rule->done_when, *answer, is_readable)) return verdict;
  verdict.is_refused = is_readable;
  verdict.phase = is_readable && !is_resend ? Phase::kRejected : Phase::kUncertain;
  verdict.detail += is_readable ? ", but no condition of done_when holds"
                                : ", but done_when cannot be read from it";
  return verdict;
}

UndoVerdict OrRefused(UndoVerdict verdict, const Tool* tool, const Backend& backend,
                      const Result<Answer>& answer, bool is_resend) {
  const bool is_open = answer && !answer->tells_no_result() && verdict.phase != Phase::kSucceeded;
  if (tool == nullptr || !is_open || !IsSuccess(answer->response.status)) return verdict;
  const std::optional<Json> body = ReadAnswerBody(*answer);
  CallValues values;
  values.answer_status = answer->response.status;
  values.answer_headers = &answer->response.headers;
  values.answer_body = body ? &*body : nullptr;
  const auto judged = CodecOf(backend).Judge(*tool, *answer, values);
  if (!judged) return verdict;
  const bool proves = judged->phase == Phase::kRejected;
  verdict.is_refused = proves;
  verdict.phase = proves && !is_resend ? Phase::kRejected : Phase::kUncertain;
  verdict.cause = proves ? Cause::kAnswer : Cause::kServerError;
  verdict.detail = judged->detail;
  return verdict;
}

UndoVerdict OrAgain(UndoVerdict verdict, const Tool* tool, const Backend& backend,
                    const Result<Answer>& answer, bool is_resend) {
  if (!answer || verdict.phase == Phase::kSucceeded) return verdict;
  bool is_read = false;
  const bool asks = OneHolds(backend.repeat_if, *answer, is_read) ||
                    (tool != nullptr && OneHolds(tool->repeat_if, *answer, is_read));
  if (!asks) return verdict;
  verdict.phase = is_resend ? Phase::kUncertain : Phase::kNotSent;
  verdict.is_refused = false;
  return verdict;
}

UndoVerdict OrTakenOn(UndoVerdict verdict, const Event& step, const UndoRule& rule,
                      const Backend& backend, const Answer& answer, const Pairs& captures) {
  if (!rule.settled_by || verdict.phase != Phase::kSucceeded) return verdict;
  const std::optional<Json> body = ReadAnswerBody(answer);
  const std::string key = ToHex(UndoKeyOf(step.key, step.operation));
  CallValues values;
  values.path = &captures;
  values.key = key;
  values.external_ref = step.external_ref;
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  auto question = Render(rule.settled_by->request, values);
  if (question && !AskAtLink(*rule.settled_by, values, *question)) question = Malformed(kNoLink);
  verdict.phase = Phase::kUncertain;
  if (!question) {
    verdict.detail += ", and cannot be asked whether it is done: ";
    verdict.detail += question.error().detail();
    return verdict;
  }
  if (rule.settled_by->at_its_path) {
    question->target = step.undo->target.substr(0, step.undo->target.find('?'));
  }
  (void)AddTenants(step.undo->headers, {}, question->method, question->headers);
  CodecOf(backend).KeepSession(step.undo->headers, question->headers);
  for (const std::string& name : rule.from_call) {
    const std::string* const value = FindHeader(step.undo->headers, name);
    if (value != nullptr) SetHeader(question->headers, name, *value);
  }
  verdict.http_status = kTakenOn;
  verdict.detail = "the backend has taken it on; settled_by tells when it is done";
  verdict.question = std::move(*question);
  return verdict;
}

Millis QuestionPause(Millis since, Millis left) {
  const Millis pause =
      std::clamp(since / 2, Millis(limits::kProbeBackoffFirst), Millis(limits::kProbeBackoffMax));
  return std::min(pause, std::max(left, Millis(limits::kProbeBackoffFirst)));
}

std::optional<UndoVerdict> JudgeState(const Event& step, const std::expected<Snapshot, Unread>& now,
                                      const std::optional<Snapshot>& shown, bool is_resend) {
  UndoVerdict verdict;
  if (!now) {
    verdict.phase = is_resend ? Phase::kUncertain : Phase::kNotSent;
    verdict.cause = Cause::kConnectFailed;
    verdict.detail = "what stands there now cannot be read: " + now.error().why;
    return verdict;
  }
  const Snapshot& before = step.state->before;
  switch (DriftOf(before, step.state->ours, *now)) {
    case Drift::kUnchanged:
      return std::nullopt;
    case Drift::kRestored:
      verdict.phase = Phase::kSucceeded;
      verdict.cause = Cause::kProbePresent;
      verdict.detail = "nothing was sent: what was there before it is there again";
      return verdict;
    case Drift::kChanged:
      break;
  }
  if (shown && HaveSamePlaces(*shown, *now) && shown->version == now->version) return std::nullopt;
  verdict.phase = is_resend ? Phase::kUncertain : Phase::kRejected;
  verdict.is_refused = true;
  verdict.detail = WhatChanged(step.state->ours, *now) +
                   " since: a retry restores what was there before it over that, to keep it "
                   "resolve the step `--as not-needed`";
  verdict.found = *now;
  return verdict;
}

Millis UndoPause(int attempts, std::optional<int> retry_after_s, std::uint32_t jitter) {
  const Millis drawn =
      Backoff({limits::kUndoBackoffFirst, limits::kUndoBackoffMax}, attempts, jitter);
  const Millis asked = retry_after_s ? Millis(std::int64_t{*retry_after_s} * 1'000) : Millis(0);
  return std::max(drawn, std::min<Millis>(asked, limits::kUndoBackoffMax));
}

std::optional<int> RetryAfterOf(const Result<Answer>& answer) {
  if (!answer) return std::nullopt;
  const std::string* field = FindHeader(answer->response.headers, "Retry-After");
  int seconds = 0;
  if (field == nullptr) return std::nullopt;
  const auto [end, error] = std::from_chars(field->data(), field->data() + field->size(), seconds);
  if (error != std::errc() || end != field->data() + field->size() || seconds < 0) {
    return std::nullopt;
  }
  return seconds;
}

}  // namespace recourse
