#include "proxy/drill/scripted_backend.h"

#include <algorithm>
#include <utility>

#include "proxy/base/limits.h"
#include "proxy/drill/graphql_message.h"
#include "proxy/drill/mcp_message.h"
#include "proxy/drill/placed_text.h"

namespace recourse {
namespace {

constexpr std::size_t kKeyDigits = 64;
// Of a backend that is slower than its policy says: more than absence has to be seen to be
// believed.
constexpr int kLateLooks = limits::kProbesAbsentMin + 2;

// A backend that is not told the key cannot know which hexadecimal text is one: all look the same.
std::string WithoutKeys(std::string text) {
  std::size_t run = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool is_hex = i < text.size() &&
                        ((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'));
    if (is_hex) {
      ++run;
      continue;
    }
    if (run == kKeyDigits)
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(i - run), run, '0');
    run = 0;
  }
  return text;
}

// What counts of a body. Two messages of MCP are one when they call one tool with the same
// arguments.
std::string Meant(const Backend& backend, const HttpRequest& request) {
  const auto call = ReadMcpCall(backend, request);
  return call ? call->tool_and_arguments : request.body;
}

// Both as the backend gets them, whatever the keys in them are.
bool IsSame(const Backend& backend, const HttpRequest& got, const HttpRequest& wanted) {
  return got.method == wanted.method && WithoutKeys(got.target) == WithoutKeys(wanted.target) &&
         WithoutKeys(Meant(backend, got)) == WithoutKeys(Meant(backend, wanted));
}

HttpRequest AtBackend(const Backend& backend, RenderedRequest request) {
  return {
      std::move(request.method), backend.base_path + request.target, {}, std::move(request.body)};
}

// A plain request that the policy says only asks, whatever its method.
bool IsPlainProbe(const ScriptedCall& call, const HttpRequest& request) {
  if (!call.tool->settle || !call.tool->settle->request.calls.empty()) return false;
  auto probe = ProbeOf(call, std::string(kKeyDigits, '0'));
  if (!probe) return false;
  const auto path = [](const std::string& target) {
    return WithoutKeys(target.substr(0, target.find('?')));
  };
  const HttpRequest wanted = AtBackend(*call.backend, std::move(*probe));
  return request.method == wanted.method && path(request.target) == path(wanted.target);
}

// What the policy says that an answer without the effect has; of a search an empty list.
std::optional<std::string> AbsentBody(const SettleRule& rule) {
  if (rule.search) {
    Json body, nothing;
    nothing.kind = Json::Kind::kArray;
    if (PutAt(body, rule.happened.name, std::move(nothing), true)) return CanonicalJson(body);
  }
  for (const Condition& condition : rule.absent) {
    const auto value = ValueFor(condition, true, Json());
    if (condition.left.source != Selector::Source::kAnswerBody || !value) continue;
    Json body;
    if (PutAt(body, condition.left.name, *value, true)) return CanonicalJson(body);
  }
  return std::nullopt;
}

HttpResponse NotFound() {
  return {404, "", {{"Content-Type", "application/json"}}, R"({"error":"not found"})"};
}

}  // namespace

ScriptedBackend::ScriptedBackend(const std::vector<ScriptedCall>& script, Mishaps mishaps)
    : script_(script), mishaps_(mishaps) {}

bool ScriptedBackend::IsFor(const HttpRequest& request, const Backend& backend) const {
  const std::string* host = FindHeader(request.headers, "Host");
  return host != nullptr && EqualsIgnoreCase(*host, backend.authority);
}

std::optional<ScriptedBackend::Heard> ScriptedBackend::CallOf(const HttpRequest& request) const {
  for (std::size_t i = 0; i < script_.size(); ++i) {
    const ScriptedCall& call = script_[i];
    if (!IsFor(request, *call.backend) || request.method != call.request.method) continue;
    const RequestPlace& key = KeyRuleOf(*call.tool, *call.backend).at;
    const RequestPlace mark = call.tool->settle ? call.tool->settle->mark : RequestPlace();
    HttpRequest wanted = call.request;
    wanted.target.insert(0, call.backend->base_path);
    wanted = WithTextOf(request, mark, WithTextOf(request, key, std::move(wanted)));
    if (request.target == wanted.target &&
        Meant(*call.backend, request) == Meant(*call.backend, wanted)) {
      return Heard{i, TextAt(key, request), TextAt(mark, request)};
    }
  }
  return std::nullopt;
}

// nullopt: it does not undo that.
std::optional<std::string> ScriptedBackend::KeyOfUndo(const Effect& effect,
                                                      const HttpRequest& request) const {
  const ScriptedCall& call = script_[effect.call];
  if (!IsFor(request, *call.backend)) return std::nullopt;
  const UndoRule* const rule = call.undo;
  const RequestPlace& at = KeyRuleOfUndo(rule, *call.backend).at;
  // The key that it names, if it names one, has the form that the write was sent with.
  for (const std::string& named : {std::string(kKeyDigits, '0'), effect.key}) {
    auto undo = UndoOf(call, named);
    if (!undo) continue;
    const HttpRequest wanted = WithTextOf(request, at, AtBackend(*call.backend, std::move(*undo)));
    if (IsSame(*call.backend, request, wanted)) return TextAt(at, request);
  }
  return std::nullopt;
}

std::optional<ScriptedBackend::HeardUndo> ScriptedBackend::UndoneBy(const HttpRequest& request) {
  std::optional<HeardUndo> repeated;
  for (Effect& effect : effects_) {
    auto key = KeyOfUndo(effect, request);
    if (!key) continue;
    if (!effect.is_undone) return HeardUndo{&effect, std::move(*key)};
    repeated = {&effect, std::move(*key)};
  }
  return repeated;
}

ServedAnswer ScriptedBackend::Handle(const HttpRequest& request) {
  for (const ScriptedCall& call : script_) {
    if (!call.backend->is_mcp() || !IsFor(request, *call.backend)) continue;
    const auto message = ReadMcpCall(*call.backend, request);
    if (!message) continue;
    ServedAnswer answer = Act(request);
    if (!answer.hangs_up) answer.head = McpAnswer(*message, answer.head);
    return answer;
  }
  return Act(request);
}

ServedAnswer ScriptedBackend::Act(const HttpRequest& request) {
  if (const auto undo = UndoneBy(request)) return Undo(*undo->effect, undo->key);
  if (const auto heard = CallOf(request)) return Write(*heard);
  if (auto later = Later(request)) return std::move(*later);
  if (auto state = StateOf(request)) return std::move(*state);
  if (IsQuestion(request)) return Ask(request);
  deeds_.push_back({Action::Kind::kStrange, 0, request.method + " " + request.target});
  return NotFound();
}

// nullopt: no `settled_by` asks so of what was taken on.
std::optional<HttpResponse> ScriptedBackend::Later(const HttpRequest& request) {
  const auto asks = [&](const ScriptedCall& call, std::optional<RenderedRequest> question) {
    return question &&
           IsSame(*call.backend, request, AtBackend(*call.backend, std::move(*question)));
  };
  for (Effect& effect : effects_) {
    const ScriptedCall& call = script_[effect.call];
    if (!IsFor(request, *call.backend)) continue;
    const bool is_of_undo = effect.is_undone && asks(call, LaterQuestionOfUndo(call, effect.key));
    if (!is_of_undo && !asks(call, LaterQuestionOf(call, effect.key))) continue;
    const SettledByRule& rule = is_of_undo ? *call.undo->settled_by : *call.tool->settled_by;
    bool& was_asked = is_of_undo ? effect.was_undo_asked_later : effect.was_asked_later;
    const auto state = StateOf(request);
    return LaterAnswer(rule, std::exchange(was_asked, true), state ? &*state : nullptr);
  }
  return std::nullopt;
}

// By a claim that is doubted: the backend tells that it happened, and it did not.
bool ScriptedBackend::IsWithoutEffect(std::size_t call) const {
  const ScriptedCall& script = script_[call];
  const Ambiguities& doubts = mishaps_.doubts;
  const bool is_lost = mishaps_.lost_answer.has_value();  // then every answer of such a call is
  const bool has_hit = !KeyRuleOf(*script.tool, *script.backend).hit.empty();
  return (doubts.settled_by && script.tool->settled_by) || (doubts.key_hit && is_lost && has_hit) ||
         (doubts.happened_if && is_lost && !script.tool->happened_if.empty());
}

// nullopt: no `before` reads so.
std::optional<HttpResponse> ScriptedBackend::StateOf(const HttpRequest& request) {
  for (std::size_t i = 0; i < script_.size(); ++i) {
    const ScriptedCall& call = script_[i];
    if (!call.states || !IsFor(request, *call.backend) ||
        !IsSame(*call.backend, request, AtBackend(*call.backend, call.states->read))) {
      continue;
    }
    const auto effect = std::ranges::find_if(
        effects_, [i](const Effect& one) { return one.call == i && !one.is_undone; });
    const bool asks_state = call.tool->settle && call.tool->settle->asks_before;
    const bool is_late = effect != effects_.end() && mishaps_.doubts.absent_after && asks_state &&
                         effect->asked++ < kLateLooks;
    return StateAnswer(call, effect != effects_.end() && !is_late);
  }
  return std::nullopt;
}

bool ScriptedBackend::IsQuestion(const HttpRequest& request) const {
  if (request.method == "GET" || request.method == "HEAD") return true;
  return std::ranges::any_of(script_, [&](const ScriptedCall& call) {
    if (!IsFor(request, *call.backend)) return false;
    if (IsGraphqlQuestion(*call.backend, request) || IsPlainProbe(call, request)) return true;
    const auto message = ReadMcpCall(*call.backend, request);
    return message && call.tool->settle &&
           message->tool_and_arguments.starts_with(call.tool->settle->request.calls + ' ');
  });
}

// Of which the list is there, whatever is in it.
bool ScriptedBackend::IsSearch(const HttpRequest& request) const {
  return std::ranges::any_of(script_, [&](const ScriptedCall& call) {
    return IsFor(request, *call.backend) && call.tool->settle && call.tool->settle->search &&
           IsPlainProbe(call, request);
  });
}

ServedAnswer ScriptedBackend::Write(const Heard& heard) {
  const auto& [call, key, mark] = heard;
  const ScriptedCall& script = script_[call];
  const KeyRule& rule = KeyRuleOf(*script.tool, *script.backend);
  if (mishaps_.doubts.key_after_failure && rule.new_after_failure) {
    deeds_.push_back({Action::Kind::kEffect, call});
    return script.refusal;
  }
  if (mishaps_.refused == call) {
    deeds_.push_back({Action::Kind::kRefused, call});
    return script.refusal;
  }
  const std::string name = script.backend->name + " " + key;
  if (!mishaps_.doubts.forgets_keys() && !key.empty() && known_.contains(name)) {
    deeds_.push_back({Action::Kind::kRepeat, call});
    if (!script.tool->happened_if.empty()) {
      return WithAll({script.tool->happened_if.front()}, script.refusal);
    }
    return WithAll(rule.hit, known_.at(name).answer);
  }
  const bool is_none = IsWithoutEffect(call);
  if (!is_none) deeds_.push_back({Action::Kind::kEffect, call});
  effects_.push_back({.call = call, .key = key, .mark = mark, .is_none = is_none});
  if (!key.empty()) known_[name] = {call, script.answer, false};
  if (is_none && !mishaps_.doubts.settled_by) return ServedAnswer::HangUp();
  if (mishaps_.lost_answer == call && !std::exchange(has_lost_, true)) {
    return ServedAnswer::HangUp();
  }
  return script.answer;
}

ServedAnswer ScriptedBackend::Undo(Effect& effect, const std::string& key) {
  const ScriptedCall& call = script_[effect.call];
  const std::string name = call.backend->name + " " + key;
  if (!mishaps_.doubts.forgets_keys() && !key.empty() && known_.contains(name)) {
    deeds_.push_back({Action::Kind::kUndoAgain, effect.call});
    return known_.at(name).answer;
  }
  const bool again = std::exchange(effect.is_undone, true);
  if (mishaps_.doubts.done || effect.is_none) {
    if (!call.undo->settled_by) effect.is_undone = effect.is_none;  // a probe finds it
    deeds_.push_back({Action::Kind::kUndoAgain, effect.call});
    return UndoneAnswer(call, again);
  }
  const bool is_harmless =
      again && !mishaps_.doubts.repeatable && call.undo->repeatable == Repeatable::kYes;
  deeds_.push_back({is_harmless ? Action::Kind::kUndoAgain : Action::Kind::kUndone, effect.call});
  HttpResponse answer = UndoneAnswer(call, again);
  if (!key.empty()) known_[name] = {effect.call, answer, true};
  return answer;
}

// What a settle request asks for is found only by what the backend was told with the write.
ServedAnswer ScriptedBackend::Ask(const HttpRequest& request) {
  for (std::size_t i = 0; i < script_.size(); ++i) {
    const ScriptedCall& call = script_[i];
    if (!IsFor(request, *call.backend)) continue;
    const auto effect = std::ranges::find_if(
        effects_, [&](const Effect& e) { return e.call == i && !e.is_undone; });
    if (effect == effects_.end()) continue;
    const std::string& told = effect->mark.empty() ? effect->key : effect->mark;
    const std::string key = told.empty() ? std::string("(never told)") : told;
    auto probe = ProbeOf(call, key);
    if (!probe) continue;
    const HttpRequest wanted = AtBackend(*call.backend, std::move(*probe));
    if (request.method != wanted.method || request.target != wanted.target ||
        Meant(*call.backend, request) != Meant(*call.backend, wanted)) {
      continue;
    }
    if (mishaps_.doubts.absent_after && effect->asked++ < kLateLooks) continue;
    deeds_.push_back({Action::Kind::kProbe, i, "found"});
    return PresentAnswer(call, key);
  }
  deeds_.push_back({Action::Kind::kProbe, 0, "nothing found"});
  const bool is_read = request.method == "GET" || request.method == "HEAD";
  return is_read && !IsSearch(request) ? NotFound() : NothingFound(request);
}

// In the words that the policy says such an answer has. Servers of MCP and GraphQL have no 404 for
// a call that finds nothing.
HttpResponse ScriptedBackend::NothingFound(const HttpRequest& request) const {
  HttpResponse answer{200, "", {{"Content-Type", "application/json"}}, "{}"};
  for (const ScriptedCall& call : script_) {
    if (!call.tool->settle || !IsFor(request, *call.backend)) continue;
    const SettleRule& rule = *call.tool->settle;
    if (IsGraphqlQuestion(*call.backend, request)) return NothingOfGraphql(rule);
    const auto message = ReadMcpCall(*call.backend, request);
    const bool is_plain = !message && IsPlainProbe(call, request);
    const bool is_call =
        message && message->tool_and_arguments.starts_with(rule.request.calls + ' ');
    if (!is_plain && !is_call) continue;
    auto body = AbsentBody(rule);
    if (is_plain && !body) return NotFound();
    if (body) answer.body = std::move(*body);
    return answer;
  }
  return answer;
}

}  // namespace recourse
