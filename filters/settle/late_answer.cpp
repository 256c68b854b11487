#include "filters/settle/late_answer.h"

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/outcome.h"
#include "filters/call/stored_response.h"
#include "filters/call/taken_on.h"
#include "filters/settle/probe.h"
#include "proxy/base/backoff.h"

namespace recourse {
namespace {

Answer AnswerOf(const Codec& codec, const FinalMessage& final) {
  Answer answer;
  answer.response.status = 200;
  answer.response.reason = "OK";
  answer.response.headers.emplace_back("Content-Type", "application/json");
  answer.response.body = final.message;
  answer.message = final.kind;
  answer.codec = &codec;
  return answer;
}

Transition FromUncertain(const Event& uncertain, Phase to, std::string detail) {
  Transition transition = Transition::Of(uncertain);
  transition.from = Phase::kUncertain;
  transition.to = to;
  transition.cause = Cause::kAnswer;
  transition.detail = std::move(detail);
  return transition;
}

// Whoever was given a task gets it again, or what became of it, as he can take it.
void KeepAnswers(const Event& uncertain, const Tool& tool, const Answer& answer,
                 Transition& transition) {
  auto kept = StoredResponse(answer, tool.keep_headers, tool.redact);
  if (kept && KeepsAnswer(uncertain)) {
    kept->body = answer.codec->WithTask(kept->body, uncertain.answer.body);
  }
  if (kept && kept->body.size() > limits::kAnswerKeptBytesMax) kept.reset();
  if (!kept && KeepsAnswer(uncertain)) kept = uncertain.answer;
  transition.answer_kept = kept.has_value();
  if (kept) transition.answer = std::move(*kept);
}

}  // namespace

std::optional<Transition> LateTransition(
    const Codec& codec, const Event& uncertain, const Tool& tool, const FinalMessage& final,
    const std::vector<std::pair<std::string, std::string>>& captures) {
  const Answer answer = AnswerOf(codec, final);
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues values;
  values.path = &captures;
  values.key = SentKey(uncertain, tool.key.value_or(KeyRule()));
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  Verdict verdict = Classify(tool, answer, values);
  if (tool.settled_by && verdict.http_status == kTakenOn && uncertain.task &&
      CodecOf(tool).AsksAboutTask(*uncertain.task)) {
    verdict.phase = Phase::kSucceeded;
    verdict.detail = "the server's task has come to its end";
  }
  // What was taken on, and then refused, is no attempt that was never made.
  if (verdict.phase == Phase::kNotSent) verdict.phase = Phase::kRejected;
  if (verdict.phase != Phase::kSucceeded && verdict.phase != Phase::kRejected) return std::nullopt;
  Transition transition = FromUncertain(uncertain, verdict.phase, std::move(verdict.detail));
  transition.http_status = answer.response.status;
  KeepAnswers(uncertain, tool, answer, transition);
  if (verdict.phase == Phase::kRejected) return transition;
  if (tool.external_ref) {
    transition.external_ref = ExternalRefText(Select(*tool.external_ref, values));
  }
  if (transition.external_ref.empty()) transition.external_ref = uncertain.external_ref;
  AddLateUndo(uncertain, tool, values, transition);
  return transition;
}

std::optional<Transition> EndedTransition(
    const Codec& codec, const Event& uncertain, const Tool& tool, const TaskReport& report,
    const std::vector<std::pair<std::string, std::string>>& captures) {
  if (report.final) return LateTransition(codec, uncertain, tool, *report.final, captures);
  // A task that was cancelled may have acted all the same: to stop is what its server tries.
  const bool has_failed = report.status == "failed" && !report.is_apart;
  if (!has_failed || tool.on_error != OnError::kNotExecuted) return std::nullopt;
  Transition transition = FromUncertain(uncertain, Phase::kRejected,
                                        "the server's task has the status " + report.status);
  transition.http_status = 200;
  transition.answer_kept = KeepsAnswer(uncertain);
  if (transition.answer_kept) transition.answer = uncertain.answer;
  return transition;
}

std::optional<Transition> DoneTransition(
    const Event& taken_on, const Tool& tool, const Answer& answer,
    const std::vector<std::pair<std::string, std::string>>& captures, const KeyRule& key) {
  const std::optional<Json> body = ReadAnswerBody(answer);
  CallValues values;
  values.path = &captures;
  values.key = SentKey(taken_on, key);
  values.external_ref = taken_on.external_ref;
  values.answer_status = answer.response.status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  if (!SaysDone(*tool.settled_by, answer, values)) return std::nullopt;
  Transition transition = FromUncertain(taken_on, Phase::kSucceeded, "settled_by says it is done");
  transition.answer_kept = taken_on.answer_kept;
  transition.answer = taken_on.answer;
  transition.keeps_settle = IsProbedAfterUndo(tool);
  transition.external_ref = taken_on.external_ref;
  if (transition.external_ref.empty() && tool.external_ref) {
    transition.external_ref = ExternalRefText(Select(*tool.external_ref, values));
  }
  AddLateUndo(taken_on, tool, values, transition);
  return transition;
}

Millis TaskPause(const TaskPace& pace, int asked, std::uint32_t jitter) {
  Millis pause = Backoff({limits::kProbeBackoffFirst, limits::kProbeBackoffMax}, asked + 1, jitter);
  if (pace.life) pause = std::min(pause, std::max(*pace.life / 4, limits::kSettleTick));
  return std::max(pause, pace.poll);
}

}  // namespace recourse
