#include "filters/key/door_marks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/call/stored_call.h"
#include "filters/ledger/model/standing_notes.h"
#include "policy/model/route_table.h"
#include "policy/model/route_tree.h"
#include "policy/undo/undo_choice.h"
#include "policy/undo/undo_names.h"
#include "policy/uri/path.h"
#include "proxy/base/json/json_canonical.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

using Place = Selector::Source;

// The path that the identity of the call names; nullopt: a value is missing, or is none for a path.
std::optional<std::string> PathAtDoor(const SameAsRule& rule, const CallValues& values) {
  if (rule.pattern.empty()) return std::nullopt;
  std::string path;
  for (const RoutePattern::Segment& segment : ParsePattern(rule.pattern).segments) {
    path += '/';
    if (!segment.is_capture) {
      path += segment.text;
      continue;
    }
    const auto at = std::ranges::find_if(rule.named, [&](const Selector& place) {
      return place.source == Place::kPath && place.name == segment.text;
    });
    if (at == rule.named.end()) return std::nullopt;
    const auto value =
        Select(rule.identity[static_cast<std::size_t>(at - rule.named.begin())], values);
    if (!value || !value->is_scalar()) return std::nullopt;
    const std::string text = ScalarText(*value);
    if (!IsPathValue(text)) return std::nullopt;
    path += PercentEncode(text);
  }
  std::string scratch;
  const auto form = FormOf(path, scratch);
  if (!form) return std::nullopt;
  return std::string(form->path);
}

std::optional<Mark> PlaceAtDoor(const HmacKey& secret, const SameAsRule& rule,
                                const CallValues& values, std::uint64_t tenants) {
  const auto path = PathAtDoor(rule, values);
  if (!path) return std::nullopt;
  return MarkOf(ResourceOf(secret, rule.backend, *path, {}, tenants));
}

// A call as another tool of the service would have it, as far as `same_as` tells.
struct Twin {
  const Tool* tool = nullptr;
  Pairs path;
  Json body;
};

void SetInTwin(std::string_view pointer, Json value, Json& body) {
  Json* at = &body;
  while (!pointer.empty()) {
    const auto end = std::min(pointer.find('/', 1), pointer.size());
    const std::string name = MemberName(pointer.substr(1, end - 1));
    pointer.remove_prefix(end);
    at->kind = Json::Kind::kObject;
    auto member = std::ranges::find(at->members, name, &Json::Member::first);
    if (member == at->members.end()) member = at->members.insert(member, {name, Json()});
    at = &member->second;
  }
  *at = std::move(value);
}

void PutInTwin(const Selector& place, Json value, Twin& twin) {
  if (place.source == Place::kBody) SetInTwin(place.name, std::move(value), twin.body);
  if (place.source == Place::kPath && value.is_scalar()) {
    twin.path.emplace_back(place.name, ScalarText(value));
  }
}

CallValues ValuesOfTwin(const Twin& twin) {
  CallValues values;
  values.path = &twin.path;
  values.body = &twin.body;
  return values;
}

Twin Mapped(const Tool& tool, const std::vector<Selector>& from, const std::vector<Selector>& to,
            const CallValues& values) {
  Twin twin{&tool, {}, {}};
  twin.body.kind = Json::Kind::kObject;
  for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    if (auto value = Select(from[i], values)) PutInTwin(to[i], std::move(*value), twin);
  }
  return twin;
}

void AddDoorsTo(const Policy& policy, const Tool& tool, const Tool& own, const CallValues& values,
                std::vector<Twin>& twins) {
  for (const Tool& door : policy.tools) {
    if (&door == &own) continue;
    for (const SameAsRule& rule : door.same_as) {
      if (rule.tool != tool.name) continue;
      Twin twin = Mapped(door, rule.named, rule.identity, values);
      for (const Condition& condition : rule.when) {
        const bool is_value = condition.op == Condition::Op::kEqual;
        if (is_value) PutInTwin(condition.left, condition.right, twin);
      }
      twins.push_back(std::move(twin));
    }
  }
}

std::vector<Twin> TwinsOf(const Policy& policy, const Tool& tool, const CallValues& values) {
  std::vector<Twin> twins;
  const SameAsRule* const rule = DoorOf(tool, values);
  const Tool* const target = rule == nullptr ? nullptr : policy.FindTool(rule->tool);
  if (target == nullptr) {
    AddDoorsTo(policy, tool, tool, values, twins);
    return twins;
  }
  twins.push_back(Mapped(*target, rule->identity, rule->named, values));
  const Twin there = twins.front();
  AddDoorsTo(policy, *target, tool, ValuesOfTwin(there), twins);
  return twins;
}

// Both doors name what was made by the same place of their answers, or nobody knows whether the
// names are one.
bool NamesAlike(const Tool& one, const Tool& other) {
  return one.external_ref && other.external_ref &&
         one.external_ref->text == other.external_ref->text;
}

// Both marks of a row have room beside what else ends it, or neither.
bool HasRoomForUndo(const Event& dispatching, const Transition& transition) {
  return dispatching.stands.ended_by.size() + transition.ended_by.size() + 2 <= kMarksMax;
}

void AddUndoOfTwin(const HmacKey& secret, const EffectFacts& facts, const Event& dispatching,
                   const Twin& twin, const Json* answer, Transition& transition) {
  CallValues values = ValuesOfTwin(twin);
  values.external_ref = transition.external_ref;
  values.answer_body = answer;
  const auto undo = RenderUndo(*twin.tool, values);
  const UndoRule* const rule = undo ? UndoOf(twin.tool, *undo) : nullptr;
  if (rule == nullptr || !NamesEffect(*twin.tool, *rule)) return;
  const Backend& backend = facts.policy->backends[twin.tool->backend];
  if (!backend.has_endpoint()) {
    if (undo->method != "DELETE") return;
    const auto place = ResourceOfTarget(secret, backend.name, facts.tenants, undo->target);
    if (place && transition.made.size() < kMarksMax) transition.made.push_back(MarkOf(*place));
    return;
  }
  const auto body =
      ReadCallBody(backend, HttpRequest{undo->method, undo->target, undo->headers, undo->body});
  if (!body || !body->calls_tool() || !HasRoomForUndo(dispatching, transition)) return;
  transition.ended_by.push_back(NoteOf(NoteKind::kOwnUndo, 1));
  transition.ended_by.push_back(
      MarkOf(CallMark(secret, backend.name, *body, facts.tenants, CanonicalJson(body->json))));
}

// What the operation's own undo, a call by name, is a door to.
void AddPlaceOfUndo(const HmacKey& secret, const EffectFacts& facts, const CallBody& undo_call,
                    Transition& transition) {
  const Tool* const undoes =
      facts.policy->routes == nullptr
          ? nullptr
          : facts.policy->routes->FindCalledTool(facts.backend, undo_call.call_name);
  CallValues values;
  values.body = undo_call.values();
  const SameAsRule* const rule = undoes == nullptr ? nullptr : DoorOf(*undoes, values);
  if (rule == nullptr || rule->method != "DELETE") return;
  const auto place = PlaceAtDoor(secret, *rule, values, facts.tenants);
  if (place && transition.made.size() < kMarksMax) transition.made.push_back(*place);
}

}  // namespace

void AddDoor(const KeyInputs& inputs, Standing& stands) {
  if (inputs.tool.same_as.empty()) return;
  CallValues values;
  values.path = &inputs.captures;
  values.query = &inputs.query;
  values.headers = &inputs.request.headers;
  values.body = inputs.body.values();
  values.body_is_form = inputs.body.is_form();
  const SameAsRule* const rule = DoorOf(inputs.tool, values);
  if (rule == nullptr) return;
  const std::uint64_t tenants = NoteIn(stands, NoteKind::kTenants).value_or(0);
  const auto place = PlaceAtDoor(inputs.secret, *rule, values, tenants);
  if (!place) return;
  const WriteKind kind = KindOfMethod(rule->method);
  stands.leaves.push_back(MarkOn(*place, kind));
  stands.ended_by.push_back(NoteOf(NoteKind::kExact, 0));
  if (kind == WriteKind::kPost || kind == WriteKind::kOther) return;
  using enum WriteKind;
  if (kind != kDelete) stands.ended_by.push_back(MarkOn(*place, kDelete));
  // What else is written there need not have changed what this call did.
  stands.ended_by.push_back(NoteOf(NoteKind::kWhole, 3));
  for (const WriteKind other : {kPut, kPatch, kPost}) {
    stands.ended_by.push_back(MarkOn(*place, other));
  }
}

void AddDoorEnds(const HmacKey& secret, const EffectFacts& facts, const Event& dispatching,
                 const CallBody* undo_call, Transition& transition) {
  if (facts.policy == nullptr) return;
  if (undo_call != nullptr) AddPlaceOfUndo(secret, facts, *undo_call, transition);
  const Tool* const tool = facts.policy->FindTool(dispatching.tool);
  if (tool == nullptr || transition.external_ref.empty()) return;
  // Once it is settled nobody has the call, and its path tells what it does.
  Pairs captures;
  CallValues stored;
  stored.path = &captures;
  if (facts.values == nullptr) captures = CapturesOf(dispatching, *facts.policy);
  const CallValues& values = facts.values == nullptr ? stored : *facts.values;
  for (const Twin& twin : TwinsOf(*facts.policy, *tool, values)) {
    if (!twin.tool->undo || !NamesAlike(*tool, *twin.tool)) continue;
    AddUndoOfTwin(secret, facts, dispatching, twin, values.answer_body, transition);
  }
}

}  // namespace recourse
