#include "filters/settle/probe.h"

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/outcome.h"
#include "filters/ledger/model/standing_notes.h"
#include "filters/settle/absence.h"
#include "policy/model/principal.h"
#include "policy/template/late_reference.h"
#include "policy/undo/put_back.h"
#include "policy/undo/tenant_fields.h"
#include "proxy/base/backoff.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

constexpr std::string_view kPerhapsOthers =
    "what it asked for is there by now and was not before, and who has brought that about is not "
    "told";
constexpr std::string_view kTenantUnknown =
    "the field that says for which tenant the call was made is not kept";

bool IsNothing(const Json& value) {
  return value.kind == Json::Kind::kNull || value.kind == Json::Kind::kFalse;
}

// Whether the value at `happened` is one: 0, "" and the like may mean either.
bool IsThere(const Json& value) {
  const bool may_mean_either = (value.kind == Json::Kind::kNumber && value.text == "0e0") ||
                               (value.kind == Json::Kind::kString && value.text.empty()) ||
                               (value.kind == Json::Kind::kArray && value.items.empty()) ||
                               (value.kind == Json::Kind::kObject && value.members.empty());
  return !IsNothing(value) && !may_mean_either;
}

// What a whole 2xx answer has at `happened`; nullopt: nothing.
std::optional<Json> Found(const SettleRule& rule, const Answer& answer) {
  const int status = answer.response.status;
  if (status < 200 || status > 299 || status == 202) return std::nullopt;
  const bool reads_body = rule.happened.source == Selector::Source::kAnswerBody;
  const std::optional<Json> body = reads_body ? ReadAnswerBody(answer) : std::nullopt;
  CallValues values;
  values.answer_status = status;
  values.answer_headers = &answer.response.headers;
  values.answer_body = body ? &*body : nullptr;
  std::optional<Json> value = Select(rule.happened, values);
  return value && IsThere(*value) ? std::move(value) : std::nullopt;
}

HttpResponse RebuiltAnswer(const Event& uncertain, const Tool& tool, std::string_view settled_by,
                           const std::string& external_ref) {
  HttpResponse answer;
  answer.status = 200;
  answer.reason = "OK";
  answer.headers.emplace_back("Content-Type", "application/json");
  answer.body = CodecOf(tool, uncertain.method).LostAnswer(external_ref, settled_by);
  return answer;
}

std::expected<RenderedRequest, std::string> WithReference(const Event& uncertain,
                                                          const std::string& external_ref) {
  auto undo = FillReference(*uncertain.undo, ToHex(uncertain.key), external_ref);
  if (!undo) return std::unexpected(std::string(undo.error().detail()));
  return std::move(*undo);
}

// The call is gone; what it set is noted beside the state before it, beside its probe, or nowhere.
std::vector<std::string> PlacesSetBy(const Event& uncertain) {
  if (uncertain.state) return PlacesNoted(uncertain.state->request.headers);
  std::vector<std::string> places;
  if (uncertain.settle) places = PlacesNoted(uncertain.settle->headers);
  if (places.empty()) places.emplace_back();
  return places;
}

// The requests that were made of the call and are kept.
std::vector<const RenderedRequest*> KeptOf(const Event& uncertain) {
  std::vector<const RenderedRequest*> kept;
  for (const auto* const request : {&uncertain.request, &uncertain.task, &uncertain.settle}) {
    if (*request) kept.push_back(&**request);
  }
  if (uncertain.state) kept.push_back(&uncertain.state->request);
  return kept;
}

Transition FromUncertain(const Event& uncertain, Phase to, Cause cause) {
  Transition transition = Transition::Of(uncertain);
  transition.from = Phase::kUncertain;
  transition.to = to;
  transition.cause = cause;
  return transition;
}

}  // namespace

std::string_view NameOf(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::kPresent:
      return "present";
    case ProbeVerdict::kAbsent:
      return "absent";
    case ProbeVerdict::kNothing:
      return "nothing";
  }
  return "nothing";
}

ProbeReading JudgeProbe(const SettleRule& rule, const Result<Answer>& result) {
  if (!result) return {};
  const Answer& answer = *result;
  if (answer.tells_no_result()) return {};
  const std::optional<Json> found = Found(rule, answer);
  const bool is_absent = StatesAbsence(rule, answer);
  // What says both says nothing.
  if (found.has_value() == is_absent) return {};
  if (is_absent) return {ProbeVerdict::kAbsent, {}};
  ProbeReading reading{ProbeVerdict::kPresent,
                       found->kind == Json::Kind::kTrue ? std::string() : ExternalRefText(*found)};
  if (rule.happened.source == Selector::Source::kAnswerBody) {
    reading.found = ReadAnswerBody(answer);
    reading.at = rule.happened.name;
  }
  return reading;
}

std::optional<Json> AsAnswer(const ProbeReading& reading, const Tool& tool) {
  const bool is_in_answer =
      tool.external_ref && tool.external_ref->source == Selector::Source::kAnswerBody;
  if (!reading.found || !is_in_answer) return std::nullopt;
  std::string_view there = reading.at, ours = tool.external_ref->name;
  bool has_common = false;
  for (;;) {
    const auto a = there.rfind('/'), b = ours.rfind('/');
    const bool is_same = a != std::string_view::npos && b != std::string_view::npos &&
                         there.substr(a) == ours.substr(b);
    if (!is_same) break;
    has_common = true;
    there = there.substr(0, a);
    ours = ours.substr(0, b);
  }
  const Json* const object = AtPointer(*reading.found, there);
  if (!has_common || object == nullptr) return std::nullopt;
  Json answer = *object;
  while (!ours.empty()) {
    const auto last = ours.rfind('/');
    Json outer;
    outer.kind = Json::Kind::kObject;
    outer.members.push_back({MemberName(ours.substr(last + 1)), std::move(answer)});
    answer = std::move(outer);
    ours = ours.substr(0, last);
  }
  return answer;
}

Finding FindingOf(const ProbeReading& reading, const Tool& tool) {
  Finding finding{.external_ref = reading.external_ref};
  if (tool.undo) finding.state = AsAnswer(reading, tool);
  if (reading.is_state) {
    finding.detail = "what it asked for is there by now, and was not before it was sent";
    finding.may_be_others = true;
  }
  return finding;
}

bool KeepsAnswer(const Event& uncertain) {
  return uncertain.answer_kept && uncertain.http_status == 202;
}

bool AbsenceCounts(const SettleRule& rule, const ProbeHistory& history, MonoTime sent_at,
                   int http_status) {
  return rule.absent_after && http_status != 202 && sent_at - history.since >= *rule.absent_after;
}

Millis ProbePause(const SettleRule& rule, const ProbeHistory& history, MonoTime now,
                  std::uint32_t jitter) {
  Millis pause =
      Backoff({limits::kProbeBackoffFirst, limits::kProbeBackoffMax}, history.probes, jitter);
  if (rule.absent_after && history.answers_absent < limits::kProbesAbsentMin) {
    const Millis left = std::chrono::ceil<Millis>(history.since + *rule.absent_after - now);
    if (left > Millis(0)) pause = std::min(pause, std::max(left, limits::kSettleTick));
    if (history.answers_absent > 0) pause = std::min(pause, limits::kProbeBackoffFirst);
  }
  return pause;
}

Transition PresentTransition(const Event& uncertain, const Finding& found, const Tool& tool,
                             const std::vector<std::pair<std::string, std::string>>& captures,
                             const KeyRule& key) {
  Transition transition = FromUncertain(uncertain, Phase::kSucceeded, found.cause);
  transition.external_ref =
      found.external_ref.empty() ? uncertain.external_ref : found.external_ref;
  transition.answer_kept = true;
  // A task that had to be asked about in another way tells nobody anything any more.
  transition.answer =
      KeepsAnswer(uncertain) && !uncertain.task
          ? uncertain.answer
          : RebuiltAnswer(uncertain, tool, found.cause == Cause::kHuman ? "human" : "probe",
                          transition.external_ref);
  transition.detail = found.detail;
  transition.keeps_settle = IsProbedAfterUndo(tool);
  // What the backend has taken on is its own.
  if (found.may_be_others && tool.undo && uncertain.http_status != 202) {
    transition.drops_undo = true;
    transition.detail.append("; ").append(kNoUndoMade).append(kPerhapsOthers);
    return transition;
  }
  CallValues values;
  values.path = &captures;
  values.key = SentKey(uncertain, key);
  AddLateUndo(uncertain, tool, values, transition, found.state ? &*found.state : nullptr);
  return transition;
}

void AddLateUndo(const Event& uncertain, const Tool& tool, CallValues values,
                 Transition& transition, const Json* state) {
  const std::string key = ToHex(uncertain.key);
  const bool is_kept = uncertain.undo.has_value();
  if (is_kept ? !LacksReference(*uncertain.undo, key) : !tool.undo) return;
  values.external_ref = transition.external_ref;
  if (uncertain.state) values.before = &uncertain.state->before;
  auto undo = is_kept ? WithReference(uncertain, transition.external_ref)
                      : MakeUndo(tool, values, PlacesSetBy(uncertain), state);
  if (!undo) {
    transition.detail.append("; ").append(kNoUndoMade).append(undo.error());
    return;
  }
  // The call itself is gone; what the undo keeps of it is kept in what was made of it before, if
  // anywhere.
  for (const RenderedRequest* const kept : KeptOf(uncertain)) {
    (void)AddTenants(kept->headers, tool.redact, undo->method, undo->headers);
  }
  const bool has_tenant = std::ranges::any_of(
      undo->headers, [](const Header& field) { return IsTenantField(field.first); });
  if (!has_tenant && NoteIn(uncertain.stands, NoteKind::kTenants)) {
    transition.detail.append("; ").append(kNoUndoMade).append(kTenantUnknown);
    return;
  }
  const auto& asks = uncertain.task ? uncertain.task : uncertain.settle;
  if (!is_kept && asks) {
    for (const std::string& name : tool.undo->from_call) {
      const std::string* const value = FindHeader(asks->headers, name);
      if (value != nullptr) undo->headers.emplace_back(name, *value);
    }
    CodecOf(tool).KeepSession(asks->headers, undo->headers);
  }
  transition.undo = std::move(*undo);
}

Transition AbsentTransition(const Event& uncertain) {
  Transition transition = FromUncertain(uncertain, Phase::kProvenAbsent, Cause::kProbeAbsent);
  transition.detail = "the settle request found no effect";
  return transition;
}

}  // namespace recourse
