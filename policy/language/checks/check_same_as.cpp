// What `same_as` must agree with: the tool that it names, whose keys its calls get.
#include <algorithm>

#include "policy/language/policy_builder.h"
#include "policy/model/approval_need.h"
#include "policy/model/route_tree.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

// Its one name at its server; nullopt: it stands for several, which are no repeats of each other.
std::optional<std::string> NameAtServer(const Tool& tool) {
  if (!tool.is_named()) return std::string();
  std::vector<std::string> names = tool.mcp_names;
  names.insert(names.end(), tool.mutations.begin(), tool.mutations.end());
  if (names.size() != 1 || IsMcpGlob(names.front())) return std::nullopt;
  return std::move(names.front());
}

// Empty, or why a call of `door` cannot be one of `tool`.
std::string WhyNoDoor(const Policy& policy, const Tool& door, const SameAsRule& rule,
                      const Tool& tool) {
  if (&tool == &door) return "names itself";
  if (tool.effect == Effect::kRead) return tool.name + " is a read";
  if (!tool.same_as.empty()) {
    return tool.name + " is such a door itself; name the tool that it is a door to";
  }
  if (tool.identity.empty()) {
    return "all arguments of " + tool.name +
           " are its key, which no other door can name; give it an identity of places";
  }
  if (tool.identity.size() != rule.identity.size()) {
    return "names " + std::to_string(rule.identity.size()) + " places, and the identity of " +
           tool.name + " has " + std::to_string(tool.identity.size()) +
           ": one for each, in its order";
  }
  if (tool.scope.kind != door.scope.kind || tool.scope.name != door.scope.name) {
    return tool.name + " has another `scope`; say the same of both";
  }
  if (AsksAboutCalls(tool) && !AsksAboutCalls(door)) {
    return tool.name +
           " needs approval, and this door to the same does not: whoever is refused there would "
           "come through here; give it an approval too";
  }
  if (!NameAtServer(tool)) {
    return tool.name + " stands for several tools of its server; name one that is one";
  }
  for (const Tool* const one : {&tool, &door}) {
    if (HasMatch(*one) && KeyRuleOf(*one, policy.backends[one->backend]).at.exists()) {
      return one->name +
             " has a key of its backend, which no other door knows; say key_at: none, or leave "
             "same_as out";
    }
  }
  return {};
}

// Where a call through the door writes, as far as the identity of its tool tells.
void AddPlaceOfDoor(const Policy& policy, const Tool& tool, SameAsRule& rule) {
  const bool is_one = tool.patterns.size() == 1 && tool.methods.size() == 1;
  if (!is_one || tool.methods.front() == "*" || tool.backend >= policy.backends.size()) return;
  const RoutePattern route = ParsePattern(tool.patterns.front());
  const auto is_told = [&](const RoutePattern::Segment& segment) {
    return !segment.is_capture || std::ranges::any_of(rule.named, [&](const Selector& place) {
      return place.source == Selector::Source::kPath && place.name == segment.text;
    });
  };
  if (route.has_rest || !std::ranges::all_of(route.segments, is_told)) return;
  rule.backend = policy.backends[tool.backend].name;
  rule.method = tool.methods.front();
  rule.pattern = tool.patterns.front();
}

}  // namespace

void CheckSameAs(PolicyBuilder& draft, std::size_t index) {
  Tool& door = draft.policy.tools[index];
  const auto error = [&](std::string message) {
    draft.problems.Error(draft.ToolPlace(index, "same_as"), draft.ToolKey(index, "same_as"),
                         std::move(message));
  };
  for (SameAsRule& rule : door.same_as) {
    std::vector<Selector> places = rule.identity;
    for (const Condition& condition : rule.when) places.push_back(condition.left);
    CheckCaptures(draft, index, "same_as", places);
    const auto found = draft.tools.find(rule.tool);
    if (found == draft.tools.end()) {
      error("no tool is called " + rule.tool + DidYouMean(rule.tool, draft.ToolNames()));
      continue;
    }
    const Tool& tool = draft.policy.tools[found->second];
    const std::string why = WhyNoDoor(draft.policy, door, rule, tool);
    if (!why.empty()) {
      error(why);
      continue;
    }
    rule.named = tool.identity;
    rule.called = NameAtServer(tool).value_or(std::string());
    AddPlaceOfDoor(draft.policy, tool, rule);
  }
}

}  // namespace recourse
