// What the drill's backends answer to requests of our own.
#include <charconv>
#include <vector>

#include "filters/call/call_values.h"
#include "proxy/drill/script.h"

namespace recourse {
namespace {

using Source = Selector::Source;

Json JsonText(std::string text) { return {Json::Kind::kString, std::move(text), {}, {}}; }

// What the tests of a search compare with, for this call.
std::vector<std::string> WantedOf(const ScriptedCall& call, const std::string& key) {
  RequestTemplate terms = call.tool->settle->request;
  terms.headers.clear();
  for (const SearchRule::Test& test : call.tool->settle->search->where) {
    terms.headers.emplace_back("term", test.value);
  }
  std::vector<std::string> wanted;
  if (const auto rendered = Render(terms, ValuesOf(call, key))) {
    for (const auto& [name, text] : rendered->headers) wanted.push_back(text);
  }
  return wanted;
}

// One of a list; beyond `texts` its places hold what no call has.
Json ElementOf(const SearchRule& rule, const std::vector<std::string>& texts, Json name) {
  Json element;
  for (std::size_t i = 0; i < rule.where.size(); ++i) {
    const std::string text = i < texts.size() ? texts[i] : "of a stranger";
    (void)PutAt(element, rule.where[i].pointer, JsonText(text), true);
  }
  (void)PutAt(element, rule.take, std::move(name), false);
  return element;
}

// At a place of a body that is kept, the value by which the condition holds, or fails.
void PutInto(Snapshot& state, const Condition& condition, bool holds) {
  const auto value = ValueFor(condition, holds, JsonText("drill"));
  const std::string& place = condition.left.name;
  for (auto& [pointer, text] : state.places) {
    if (!value || !place.starts_with(pointer)) continue;
    const std::string inner = place.substr(pointer.size());
    Json whole = inner.empty() ? *value : ParseJson(text).value_or(Json());
    if (inner.empty() || PutAt(whole, inner, *value, true)) text = CanonicalJson(whole);
  }
}

}  // namespace

void MakeReached(const SettleRule& rule, Snapshot& before, Snapshot& ours) {
  for (const Condition& condition : rule.reached) {
    PutInto(before, condition, false);
    PutInto(ours, condition, true);
  }
  if (!rule.asks_before) return;
  for (const Condition& condition : rule.absent) PutInto(before, condition, true);
}

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

HttpResponse PresentAnswer(const ScriptedCall& call, const std::string& key) {
  const SettleRule& rule = *call.tool->settle;
  const Selector& happened = rule.happened;
  HttpResponse answer{200, "", {{"Content-Type", "application/json"}}, "{}"};
  Json value = JsonText(call.reference.empty() ? "drill" : call.reference);
  if (call.tool->external_ref && call.tool->external_ref->source == Source::kAnswerBody) {
    const Json* own = AtPointer(call.answer_body, call.tool->external_ref->name);
    if (own != nullptr) value = *own;
  }
  if (rule.search) {
    Json list;
    list.kind = Json::Kind::kArray;
    list.items.push_back(ElementOf(*rule.search, std::vector<std::string>(), JsonText("stranger")));
    list.items.push_back(ElementOf(*rule.search, WantedOf(call, key), std::move(value)));
    value = std::move(list);
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

HttpResponse WithAll(const std::vector<Condition>& conditions, HttpResponse answer) {
  for (const Condition& condition : conditions) {
    const auto value = ValueFor(condition, true, JsonText("drill"));
    if (!value) continue;
    if (condition.left.source == Source::kAnswerStatus) {
      const std::string text = ScalarText(*value);
      std::from_chars(text.data(), text.data() + text.size(), answer.status);
    } else if (condition.left.source == Source::kAnswerHeader) {
      SetHeader(answer.headers, condition.left.name, ScalarText(*value));
    } else if (condition.left.source == Source::kAnswerBody) {
      Json body = ParseJson(answer.body).value_or(Json());
      if (PutAt(body, condition.left.name, *value, true)) answer.body = CanonicalJson(body);
    }
  }
  return answer;
}

HttpResponse LaterAnswer(const SettledByRule& rule, bool is_done, const HttpResponse* state) {
  HttpResponse answer =
      state != nullptr ? *state : HttpResponse{200, "", {}, R"({"drill":"busy"})"};
  SetHeader(answer.headers, "Content-Type", "application/json");
  if (is_done) return WithAll(rule.until, std::move(answer));
  for (const Condition& condition : rule.until) {
    if (condition.left.source != Source::kAnswerBody) continue;
    const auto other = ValueFor(condition, false, Json());
    Json body = ParseJson(answer.body).value_or(Json());
    if (other && PutAt(body, condition.left.name, *other, true)) answer.body = CanonicalJson(body);
  }
  return answer;
}

HttpResponse UndoneAnswer(const ScriptedCall& call, bool again) {
  const UndoRule& rule = *call.undo;
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
