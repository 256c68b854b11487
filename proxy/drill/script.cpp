#include "proxy/drill/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "filters/call/call_values.h"
#include "filters/call/snapshots.h"
#include "policy/model/route_table.h"
#include "policy/undo/put_back.h"
#include "policy/undo/undo_choice.h"
#include "proxy/drill/graphql_message.h"
#include "proxy/drill/mcp_message.h"
#include "proxy/drill/wanted_call.h"

namespace recourse {
namespace {

constexpr std::string_view kVersionBefore = "\"drill-1\"", kVersionAfter = "\"drill-2\"";

using Source = Selector::Source;
using Type = RequestTemplate::Type;

constexpr std::string_view kPlaceholder = "Bearer drill-placeholder";

Json TextJson(std::string text) {
  Json json;
  json.kind = Json::Kind::kString;
  json.text = std::move(text);
  return json;
}

bool IsOfBefore(const Selector& place) {
  return place.source == Source::kBeforeBody || place.source == Source::kBeforeHeader;
}

// What placeholders of a template read, with the type that they insist on.
using Need = std::pair<Selector, Type>;

void AddNeeds(std::vector<Need>& needs, const RequestTemplate::Text& text) {
  for (const auto& piece : text) {
    if (piece.selector) needs.emplace_back(*piece.selector, piece.type);
  }
}

void AddNeeds(std::vector<Need>& needs, const RequestTemplate::Node& node) {
  AddNeeds(needs, node.text);
  for (const auto& item : node.items) AddNeeds(needs, item);
  for (const auto& member : node.members) AddNeeds(needs, member.second);
}

void AddNeeds(std::vector<Need>& needs, const RequestTemplate& request) {
  for (const auto& text : request.path) AddNeeds(needs, text);
  for (const auto* fields : {&request.query, &request.headers, &request.form}) {
    for (const auto& [name, text] : *fields) AddNeeds(needs, text);
  }
  if (request.json) AddNeeds(needs, *request.json);
}

// Makes one call; every value names its call and its place, so that none occurs twice.
class Maker {
 public:
  Maker(const Policy& policy, const Tool& tool, std::size_t number, std::size_t undo)
      : policy_(policy),
        tool_(tool),
        number_(number),
        undo_(undo),
        wanted_(WantedCallOf(tool, undo)) {
    const std::vector<const UndoRule*> undos = UndosOf(tool);
    if (undo < undos.size()) call_.undo = undos[undo];
    call_.tool = &tool;
    call_.backend = &policy.backends[tool.backend];
    call_.number = number;
  }

  std::expected<ScriptedCall, std::string> Make();

 private:
  std::vector<Need> Needs() const;
  bool IsLeftByUndo(const Selector& place) const;
  Json ValueAt(std::string_view name, Type type) const;
  void SetField(std::string name, std::string value);
  void NeedScope(const ScopeRule& scope);
  void NeedOfRequest(const Need& need);
  std::string CaptureOf(const std::string& name) const;
  void MakeWanted();
  bool MakePath();
  void MakeValues();
  std::string MakeRequest();
  std::string MakeMcpRequest();
  std::string MakeMutation();
  std::string MakeAnswer();
  std::string MakeStates();
  std::string WhyNotUndone() const;
  bool Accepts(int status) const;
  void MakeRefusal();

  const Policy& policy_;
  const Tool& tool_;
  const std::size_t number_, undo_;
  const WantedCall wanted_;
  ScriptedCall call_;
};

// A call that sets what its undo does not put back would only have its flow parked.
bool Maker::IsLeftByUndo(const Selector& place) const {
  return call_.undo != nullptr && place.source == Source::kBody && PutsBack(tool_, *call_.undo) &&
         !MaySet(*call_.undo, place.name);
}

std::vector<Need> Maker::Needs() const {
  std::vector<Need> needs;
  if (tool_.settle) AddNeeds(needs, tool_.settle->request);
  if (call_.undo != nullptr) AddNeeds(needs, call_.undo->request);
  if (tool_.settled_by) AddNeeds(needs, tool_.settled_by->request);
  if (call_.undo != nullptr && call_.undo->settled_by) {
    AddNeeds(needs, call_.undo->settled_by->request);
  }
  for (const Selector& place : tool_.identity) {
    if (!IsLeftByUndo(place)) needs.emplace_back(place, Type::kAny);
  }
  for (const Selector& place : tool_.redact) needs.emplace_back(place, Type::kAny);
  if (tool_.external_ref) needs.emplace_back(*tool_.external_ref, Type::kAny);
  if (!tool_.before) return needs;
  AddNeeds(needs, tool_.before->request);
  if (tool_.is_named() && !KeptArguments(tool_).empty()) {
    for (const auto& [argument, kept] : KeptArguments(tool_)) {
      needs.emplace_back(*ParseSelector("body#" + argument), Type::kAny);
    }
    return needs;
  }
  for (const Selector& place : tool_.before->keep) {
    if (call_.request.method != "DELETE" && !place.name.empty()) {
      needs.emplace_back(place, Type::kAny);
    }
  }
  return needs;
}

// As it was, and as the call leaves it; the call's own answer agrees with that.
std::string Maker::MakeStates() {
  if (!tool_.before) return {};
  const BeforeRule& rule = *tool_.before;
  CallValues values = ValuesOf(call_, {});
  auto read = Render(rule.request, values);
  if (!read && rule.missing == BeforeMissing::kGoOn) return {};  // there is nothing to read
  if (!read) return std::string(read.error().detail());
  Json was;
  for (const auto& [place, type] : Needs()) {
    if (place.source != Source::kBeforeBody || wanted_.IsAbsent(place)) continue;
    (void)PutAt(was, place.name, ValueAt("-before" + place.name, type), false);
  }
  for (const Selector& place : rule.keep) {
    (void)PutAt(was, place.name, ValueAt("-before" + place.name, Type::kText), false);
  }
  for (const auto& [place, value] : wanted_.Values()) {
    if (place.source != Source::kBeforeBody) continue;
    (void)PutAt(was, place.name, value.value_or(TextJson("drill")), value.has_value());
  }
  Snapshot before;
  for (const Selector& place : rule.keep) {
    const Json* const value = AtPointer(was, place.name);
    std::string text;
    if (value == nullptr || !AppendJson(text, *value)) return "what `keep` names cannot be made up";
    before.places.emplace_back(place.name, std::move(text));
  }
  before.version = kVersionBefore;
  Snapshot ours = PlannedState(tool_, before, call_.request.method, values);
  ours.version = kVersionAfter;
  if (tool_.settle) MakeReached(*tool_.settle, before, ours);
  for (auto& [pointer, text] : ours.places) {
    if (pointer.empty() && call_.answer_body.kind != Json::Kind::kNull) {
      text = CanonicalJson(call_.answer_body);  // the whole of it is what the call left
      continue;
    }
    const auto value = ParseJson(text);
    if (value && AtPointer(call_.answer_body, pointer) != nullptr) {
      (void)PutAt(call_.answer_body, pointer, *value, true);
    }
  }
  if (rule.version && rule.version->source == Source::kBody &&
      AtPointer(call_.answer_body, rule.version->name) != nullptr) {
    (void)PutAt(call_.answer_body, rule.version->name, TextJson(ours.version), true);
  }
  call_.answer.body = CanonicalJson(call_.answer_body);
  call_.states = {std::move(*read), std::move(before), std::move(ours)};
  return {};
}

Json Maker::ValueAt(std::string_view name, Type type) const {
  if (type == Type::kNumber) return ParseJson(std::to_string(1000 + number_)).value_or(Json());
  if (type == Type::kBool) return ParseJson("true").value_or(Json());
  std::string text = fmt::format("drill-{}", number_);
  for (const char c : name) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_plain) {
      text.push_back(c);
    } else if (text.back() != '-') {
      text.push_back('-');
    }
  }
  if (text.back() == '-') text.pop_back();
  return TextJson(std::move(text));
}

void Maker::SetField(std::string name, std::string value) {
  if (FindHeader(call_.request.headers, name) == nullptr) {
    call_.request.headers.emplace_back(std::move(name), std::move(value));
  }
}

void Maker::NeedScope(const ScopeRule& scope) {
  const std::string text = ValueAt("scope", Type::kAny).text;
  switch (scope.kind) {
    case ScopeRule::Kind::kSession:
      SetField("Recourse-Session", text);
      break;
    case ScopeRule::Kind::kHeader:
      SetField(scope.name, text);
      break;
    case ScopeRule::Kind::kBaggage:
      SetField("baggage", scope.name + "=" + text);
      break;
    case ScopeRule::Kind::kBody:
      (void)PutAt(call_.body, scope.name, TextJson(text), false);
      break;
    default:
      break;
  }
}

void Maker::NeedOfRequest(const Need& need) {
  const auto& [place, type] = need;
  if (wanted_.IsAbsent(place)) return;
  switch (place.source) {
    case Source::kBody:
      if (!place.name.empty()) {
        (void)PutAt(call_.body, place.name, ValueAt(place.name, type), false);
      } else if (call_.body.kind == Json::Kind::kNull) {
        call_.body.kind = Json::Kind::kObject;  // all of it: other places are in there, too
      }
      break;
    case Source::kQuery:
      if (std::ranges::none_of(call_.query, [&](const auto& p) { return p.first == place.name; })) {
        call_.query.emplace_back(place.name, ValueAt("-" + place.name, Type::kText).text);
      }
      break;
    case Source::kHeader:
      SetField(place.name, EqualsIgnoreCase(place.name, "authorization")
                               ? std::string(kPlaceholder)
                               : ValueAt("-" + place.name, Type::kText).text);
      break;
    default:
      break;
  }
}

std::string Maker::CaptureOf(const std::string& name) const {
  for (const auto& [place, value] : wanted_.Values()) {
    if (place.source == Source::kPath && place.name == name && value) return ScalarText(*value);
  }
  return ValueAt("-" + name, Type::kText).text;
}

// What the undo is chosen by, of the call.
void Maker::MakeWanted() {
  for (const auto& [place, value] : wanted_.Values()) {
    if (!value) {
      if (IsOfCall(place)) NeedOfRequest({place, Type::kAny});
    } else if (place.source == Source::kBody) {
      (void)PutAt(call_.body, place.name, *value, true);
    } else if (place.source == Source::kQuery) {
      call_.query.emplace_back(place.name, ScalarText(*value));
    } else if (place.source == Source::kHeader) {
      SetField(place.name, ScalarText(*value));
    }
  }
}

// The first pattern with a value for every capture; `/**` stands for nothing.
bool Maker::MakePath() {
  std::string_view rest = tool_.patterns.front();
  std::string target;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const auto end = std::min(rest.find('/'), rest.size());
    const std::string_view segment = rest.substr(0, end);
    rest.remove_prefix(end);
    if (segment == "**") continue;
    target.push_back('/');
    if (segment.size() > 2 && segment.front() == '{' && segment.back() == '}') {
      const std::string name(segment.substr(1, segment.size() - 2));
      call_.path.emplace_back(name, CaptureOf(name));
      target += call_.path.back().second;
    } else {
      target += segment;
    }
  }
  if (target.empty()) target = "/";
  std::string scratch;
  const auto match = policy_.routes->Match(*call_.backend, call_.request.method, target, scratch);
  call_.request.target = std::move(target);
  return match && match->tool == &tool_;
}

// All that the policy reads of the request.
void Maker::MakeValues() {
  if (tool_.approval) {
    for (const Condition& condition : tool_.approval->when) {  // a call that needs a human
      const auto value = ValueFor(condition, true, TextJson("drill"));
      if (value && condition.left.source == Source::kBody) {
        (void)PutAt(call_.body, condition.left.name, *value, true);
      }
    }
  }
  MakeWanted();
  for (const Need& need : Needs()) NeedOfRequest(need);
  NeedScope(tool_.scope);
  for (const UndoRule* const undo : UndosOf(tool_)) {
    for (const std::string& name : undo->from_call) SetField(name, std::string(kPlaceholder));
  }
  SetField("Host", call_.backend->authority);
}

// A name that the tool has for its own, as any policy explains it.
std::string NameOfMcpTool(const Policy& policy, const Tool& tool) {
  for (std::string name : tool.mcp_names) {
    for (auto star = name.find('*'); star != std::string::npos; star = name.find('*')) {
      name.replace(star, 1, "drill");
    }
    if (policy.routes->FindCalledTool(policy.backends[tool.backend], name) == &tool) return name;
  }
  return {};
}

std::string Maker::MakeMcpRequest() {
  const std::string name = NameOfMcpTool(policy_, tool_);
  if (name.empty()) return "no made-up name of an MCP tool matches it";
  MakeValues();
  if (call_.body.kind == Json::Kind::kNull) call_.body.kind = Json::Kind::kObject;
  WriteMcpCall(*call_.backend, name, call_.body, call_.request);
  return {};
}

std::string Maker::MakeMutation() {
  MakeValues();
  if (call_.body.kind == Json::Kind::kNull) call_.body.kind = Json::Kind::kObject;
  WriteMutation(*call_.backend, tool_, call_.body, call_.request);
  return {};
}

// Empty: it was made; else why not.
std::string Maker::MakeRequest() {
  static constexpr std::array<std::string_view, 5> kMethods = {"POST", "PUT", "PATCH", "DELETE",
                                                               "GET"};
  const std::string& method = tool_.methods.front() == "*" ? "POST" : tool_.methods.front();
  if (std::ranges::find(kMethods, method) == kMethods.end()) {
    return "its method " + method + " is none of POST, PUT, PATCH, DELETE and GET";
  }
  call_.request.method = method;
  if (!MakePath()) return "no made-up path matches its route";
  MakeValues();
  char separator = '?';
  for (const auto& [name, value] : call_.query) {
    call_.request.target += separator + name + "=" + value;
    separator = '&';
  }
  const bool has_body = call_.body.kind != Json::Kind::kNull;
  if (has_body && method == "GET") return "it is a GET and its values are in the body";
  if (has_body || method == "POST" || method == "PUT" || method == "PATCH") {
    if (!has_body) call_.body.kind = Json::Kind::kObject;
    call_.request.body = CanonicalJson(call_.body);
    SetField("Content-Type", "application/json");
  }
  return {};
}

bool Maker::Accepts(int status) const {
  ScriptedCall tried = call_;
  tried.answer.status = status;
  const CallValues values = ValuesOf(tried, {});
  const auto holds = [&](const Condition& c) { return Evaluate(c, values).value_or(false); };
  const auto is_so = [&](const Condition& c) { return IsOfBefore(c.left) || holds(c); };
  const auto is_not = [&](const Condition& c) { return IsOfBefore(c.left) || !holds(c); };
  return std::ranges::all_of(wanted_.holds, is_so) &&  // MakeStates sees to what was before
         std::ranges::all_of(wanted_.fails, is_not) &&
         std::ranges::none_of(tool_.failed_when, holds);
}

// Empty: the wanted request undoes it.
std::string Maker::WhyNotUndone() const {
  if (call_.undo == nullptr) return {};
  const auto chosen = ChooseUndo(tool_, ValuesOf(call_, {}));
  if (chosen && *chosen == undo_) return {};
  return fmt::format("no made-up call is undone by its request number {}", undo_ + 1);
}

std::string Maker::MakeAnswer() {
  for (const auto& [place, value] : wanted_.Values()) {
    const Json any = value.value_or(ValueAt("-any", Type::kText));
    if (place.source == Source::kAnswerBody) {
      (void)PutAt(call_.answer_body, place.name, any, true);
    } else if (place.source == Source::kAnswerHeader) {
      SetHeader(call_.answer.headers, place.name, ScalarText(any));
    }
  }
  if (tool_.settled_by && tool_.settled_by->at) {
    const Selector& at = *tool_.settled_by->at;
    const std::string link =
        tool_.settled_by->root + tool_.settled_by->base_path + LaterPath(number_);
    if (at.source == Source::kAnswerHeader) SetHeader(call_.answer.headers, at.name, link);
    if (at.source == Source::kAnswerBody) {
      (void)PutAt(call_.answer_body, at.name, TextJson(link), true);
    }
  }
  for (const auto& [place, type] : Needs()) {
    const Json value = ValueAt("-" + place.name, type);
    if (wanted_.IsAbsent(place)) continue;
    if (place.source == Source::kAnswerBody) {
      (void)PutAt(call_.answer_body, place.name, value, false);
    } else if (place.source == Source::kAnswerHeader &&
               FindHeader(call_.answer.headers, place.name) == nullptr) {
      SetHeader(call_.answer.headers, place.name, ScalarText(value));
    }
  }
  if (!tool_.mutations.empty()) {
    const auto is_done = ParseJson(R"({"__typename":"Drill"})");
    (void)PutAt(call_.answer_body, "/data/" + tool_.mutations.front(), *is_done, false);
  }
  if (call_.answer_body.kind == Json::Kind::kNull) call_.answer_body.kind = Json::Kind::kObject;
  SetHeader(call_.answer.headers, "Content-Type", "application/json");
  call_.answer.body = CanonicalJson(call_.answer_body);
  for (const int status : {200, 201, 202, 204}) {
    if (!Accepts(status)) continue;
    call_.answer.status = status;
    if (tool_.external_ref) {
      call_.reference = ExternalRefText(Select(*tool_.external_ref, ValuesOf(call_, {})));
    }
    return {};
  }
  return "no made-up answer satisfies its success_when and failed_when";
}

// By a 2xx where the policy says which one refuses, else by a status that every server refuses
// with.
void Maker::MakeRefusal() {
  HttpResponse& refusal = call_.refusal;
  for (const Condition& condition : tool_.failed_when) {
    Json body;
    const auto value = ValueFor(condition, true, TextJson("refused"));
    if (!value || condition.left.source != Source::kAnswerBody) continue;
    if (!PutAt(body, condition.left.name, *value, true)) continue;
    refusal = {200, "", {{"Content-Type", "application/json"}}, CanonicalJson(body)};
    return;
  }
  refusal = {
      422, "", {{"Content-Type", "application/json"}}, R"({"error":"refused by the drill"})"};
}

std::expected<ScriptedCall, std::string> Maker::Make() {
  std::string why = !tool_.mcp_names.empty()   ? MakeMcpRequest()
                    : !tool_.mutations.empty() ? MakeMutation()
                                               : MakeRequest();
  if (why.empty()) why = MakeAnswer();
  if (why.empty()) why = MakeStates();
  if (why.empty()) why = WhyNotUndone();
  if (!why.empty()) return std::unexpected(std::move(why));
  MakeRefusal();
  return std::move(call_);
}

}  // namespace

std::expected<ScriptedCall, std::string> ScriptCall(const Policy& policy, const Tool& tool,
                                                    std::size_t number, std::size_t undo) {
  return Maker(policy, tool, number, undo).Make();
}

}  // namespace recourse
