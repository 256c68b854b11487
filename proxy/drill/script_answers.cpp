// What the drill's backends answer to requests of our own.
#include "filters/call/call_values.h"
#include "proxy/drill/script.h"

namespace recourse {
namespace {

using Source = Selector::Source;

Json JsonText(std::string text) { return {Json::Kind::kString, std::move(text), {}, {}}; }

}  // namespace

HttpResponse StateAnswer(const ScriptedCall& call, bool has_effect) {
  const Snapshot& state = has_effect ? call.states->ours : call.states->before;
  HttpResponse answer{200, "", {{"Content-Type", "application/json"}}, "{}"};
  if (state.is_gone) {
    answer.status = 404;
    return answer;
  }
  Json body;
  body.kind = Json::Kind::kObject;
  for (const auto& [pointer, text] : state.places) {
    auto value = ParseJson(text);
    if (!value) continue;
    if (pointer.empty()) {
      body = std::move(*value);
    } else {
      (void)PutAt(body, pointer, std::move(*value), true);
    }
  }
  const auto& version = call.tool->before->version;
  if (version && version->source == Source::kHeader) {
    SetHeader(answer.headers, version->name, state.version);
  } else if (version) {
    (void)PutAt(body, version->name, JsonText(state.version), true);
  }
  answer.body = CanonicalJson(body);
  return answer;
}

HttpResponse PresentAnswer(const ScriptedCall& call) {
  const Selector& happened = call.tool->settle->happened;
  HttpResponse answer{200, "", {{"Content-Type", "application/json"}}, "{}"};
  Json value = JsonText(call.reference.empty() ? "drill" : call.reference);
  if (call.tool->external_ref && call.tool->external_ref->source == Source::kAnswerBody) {
    const Json* own = AtPointer(call.answer_body, call.tool->external_ref->name);
    if (own != nullptr) value = *own;
  }
  if (happened.source == Source::kAnswerHeader) {
    SetHeader(answer.headers, happened.name, ScalarText(value));
  } else if (happened.source == Source::kAnswerBody) {
    Json body;
    (void)PutAt(body, happened.name, std::move(value), true);
    answer.body = CanonicalJson(body);
  }
  return answer;
}

HttpResponse UndoneAnswer(const ScriptedCall& call, bool again) {
  const UndoRule& rule = *call.tool->undo;
  HttpResponse answer{200, "", {{"Content-Type", "application/json"}}, "{}"};
  const bool says_gone = again && rule.done_when.empty() && rule.done.Contains(404);
  if (says_gone) {
    answer.status = 404;
    return answer;
  }
  for (int status = 200; status < 600; ++status) {
    if (!rule.done.Contains(status)) continue;
    answer.status = status;
    break;
  }
  for (const Condition& condition : rule.done_when) {
    Json body;
    const auto value = ValueFor(condition, true, JsonText("undone"));
    if (!value || condition.left.source != Source::kAnswerBody) continue;
    if (!PutAt(body, condition.left.name, *value, true)) continue;
    answer.body = CanonicalJson(body);
    break;
  }
  return answer;
}

}  // namespace recourse
