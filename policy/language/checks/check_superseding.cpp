// What ends an answer of a tool beside what always does: `superseded_by`.
#include <algorithm>
#include <array>
#include <optional>

#include "policy/language/policy_builder.h"
#include "policy/model/route_tree.h"
#include "policy/undo/put_back.h"
#include "policy/uri/opposites.h"

namespace recourse {
namespace {

// Verbs of tools that set what is there to what the call says.
constexpr std::array<std::string_view, 9> kSetting{"set",  "update",  "edit",   "change", "rename",
                                                   "move", "replace", "modify", "upsert"};

// What every path of the tool captures, but for so many captures at the end of each.
std::vector<std::string> CapturesOfAll(const Tool& tool, std::size_t fewer = 0) {
  std::vector<std::string> common;
  for (std::size_t i = 0; i < tool.patterns.size(); ++i) {
    std::vector<std::string> names;
    for (const auto& segment : ParsePattern(tool.patterns[i]).segments) {
      if (segment.is_capture) names.push_back(segment.text);
    }
    names.resize(names.size() - std::min(names.size(), fewer));
    if (i == 0) common = names;
    std::erase_if(common, [&](const std::string& name) {
      return std::ranges::find(names, name) == names.end();
    });
  }
  std::ranges::sort(common);
  return common;
}

// What stands before that capture in the path, where it is the same in all of them.
std::optional<std::string> PlaceOf(const Tool& tool, std::string_view capture) {
  std::optional<std::string> place;
  for (const std::string& pattern : tool.patterns) {
    std::string before;
    for (const auto& segment : ParsePattern(pattern).segments) {
      if (segment.is_capture && segment.text == capture) break;
      AppendPart(before, segment.is_capture ? "" : segment.text);
    }
    if (place && *place != before) return std::nullopt;
    place = std::move(before);
  }
  return place;
}

// Whether all that those captures name is within the same things.
bool AreOfOnePlace(const std::vector<std::string>& captures, const Tool& one, const Tool& other) {
  return std::ranges::all_of(captures, [&](const std::string& capture) {
    const auto place = PlaceOf(one, capture);
    return place && place == PlaceOf(other, capture);
  });
}

bool SetsByName(const std::string& name) {
  return std::ranges::any_of(WordsOf(name), [](const std::string& word) {
    return std::ranges::find(kSetting, word) != kSetting.end();
  });
}

}  // namespace

void CheckSuperseding(PolicyBuilder& draft, std::size_t index) {
  const auto refuse = [&](std::string why) {
    draft.problems.Error(draft.ToolPlace(index, "superseded_by"),
                         draft.ToolKey(index, "superseded_by"), std::move(why));
  };
  Tool& tool = draft.policy.tools[index];
  for (EndingTool& ending : tool.superseded_by) {
    const auto found = draft.tools.find(ending.name);
    if (found == draft.tools.end()) {
      refuse("no tool is called " + ending.name +
             "; accepted: names of tools that write, others, none");
      continue;
    }
    Tool& other = draft.policy.tools[found->second];
    if (other.effect == Effect::kRead) {
      refuse(ending.name + " is a read, which changes nothing");
    } else if (found->second == index) {
      refuse("its own later calls are no reason to make it again; say others if it sets a state");
    }
    other.supersedes_others = true;
    // Both must capture all of them, or all but the last one: a label of an issue is that issue's.
    const std::vector<std::string> mine = CapturesOfAll(tool);
    ending.captures = CapturesOfAll(other);
    if (std::ranges::includes(mine, ending.captures)) continue;
    ending.captures = CapturesOfAll(other, 1);
    const bool is_holder =
        std::ranges::includes(mine, ending.captures) && AreOfOnePlace(ending.captures, tool, other);
    if (!is_holder) ending.captures.clear();
  }
}

namespace {

// A POST whose undo sets back what was there before, by another request than the same one, of which
// the engine knows by itself.
bool MaySetAtPath(const Tool& tool) {
  const std::vector<const UndoRule*> undos = UndosOf(tool);
  const auto puts_back = [&](const UndoRule* undo) { return PutsBack(tool, *undo); };
  const auto is_known = [&](const UndoRule* undo) { return SetsAtPath(tool, *undo); };
  return tool.before && !tool.is_named() && std::ranges::any_of(undos, puts_back) &&
         std::ranges::find(tool.methods, "POST") != tool.methods.end() &&
         std::ranges::none_of(undos, is_known);
}

}  // namespace

// Of a call by name, and of a POST, nothing else tells whether it sets something or makes it.
void WarnAboutSetting(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (!draft.ToolHas(index, "superseded_by") && MaySetAtPath(tool)) {
    draft.problems.Warn(draft.tool_places[index], draft.ToolKey(index, "superseded_by"),
                        "is not given, and its undo sets back what was there before: after a POST "
                        "with other values the first one's repeat still gets its answer from the "
                        "log; say others, which tools change the same, or none if each call makes "
                        "something of its own");
  }
  std::vector<std::string> names = tool.mcp_names;
  names.insert(names.end(), tool.mutations.begin(), tool.mutations.end());
  const auto setting = std::ranges::find_if(names, SetsByName);
  const bool is_known = draft.ToolHas(index, "superseded_by") ||
                        std::ranges::any_of(UndosOf(tool), [&](const UndoRule* undo) {
                          return tool.before && PutsBack(tool, *undo);
                        });
  if (tool.effect == Effect::kRead || setting == names.end() || is_known) return;
  draft.problems.Warn(draft.tool_places[index], draft.ToolKey(index, "superseded_by"),
                      "is not given, and " + *setting +
                          " may set what is there: after a call with other values the first one's "
                          "repeat still gets its answer from the log; say superseded_by: others, "
                          "or none if each call makes something of its own");
}

}  // namespace recourse
