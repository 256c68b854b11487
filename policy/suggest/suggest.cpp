#include "policy/suggest/suggest.h"

#include <algorithm>
#include <map>
#include <set>

#include "policy/import/import_text.h"
#include "policy/suggest/listed_tools.h"

namespace recourse {
namespace {

constexpr std::int64_t kWindowMs = 10 * 60 * 1000;  // dedupe_window by default

std::string PathWordsOf(const SeenTool& tool) {
  std::string words;
  for (const std::string& segment : tool.segments) {
    if (!NamesOne(segment)) words += (words.empty() ? "" : ".") + segment;
  }
  return words.empty() ? tool.backend : words;
}

std::string VerbOf(const SeenTool& tool) {
  const bool names_one = !tool.segments.empty() && NamesOne(tool.segments.back());
  if (tool.IsRead()) return names_one ? "get" : "list";
  if (tool.method == "PUT") return "replace";
  if (tool.method == "PATCH") return "update";
  if (tool.method == "DELETE") return "delete";
  const bool is_below = std::ranges::any_of(tool.segments, NamesOne);
  return names_one ? "post" : is_below ? "" : "create";
}

// A name that a model has made up.
bool NeverRan(const std::vector<Sighting>& seen, const SeenTool& tool) {
  return tool.IsMcp() &&
         std::ranges::none_of(tool.calls, [&](std::size_t call) { return seen[call].Succeeded(); });
}

std::string NameFor(const SeenTool& tool, std::set<std::string>& taken) {
  std::string name = LegalName(tool.name, 100);
  if (name.empty()) {
    const std::string verb = VerbOf(tool);
    name = LegalName(PathWordsOf(tool) + (verb.empty() ? "" : "." + verb), 100);
  }
  return UniqueName(name.empty() ? "call" : name, taken);
}

// What of a call is in its key under the suggestion, or in its fingerprint.
using KeyValues = std::map<std::string, std::uint64_t>;

KeyValues KeyValuesOf(const Sighting& call, const SuggestedTool& tool, bool in_key) {
  const auto& identity = tool.identity.identity;
  KeyValues values;
  const auto add = [&](const std::string& place, std::uint64_t hash) {
    const bool is_ignored =
        std::ranges::any_of(tool.identity.ignore,
                            [&](const std::string& pointer) { return place == "body#" + pointer; });
    const bool is_key = identity.empty() || std::ranges::find(identity, place) != identity.end();
    if (!is_ignored && (is_key || !in_key)) values[place] = hash;
  };
  for (std::size_t i = 0; i < call.path.size(); ++i)
    add("path " + std::to_string(i), call.path[i].hash);
  if (in_key && !identity.empty()) {
    values.clear();
    for (std::size_t i = 0; i < call.path.size(); ++i) {
      const std::string& segment = tool.seen.segments[i];
      if (NamesOne(segment)) add("path." + std::string(CaptureName(segment)), call.path[i].hash);
    }
  }
  for (const auto* seen : {&call.query, &call.body}) {
    for (const SeenValue& value : *seen) add(value.place, value.hash);
  }
  return values;
}

void ReplayTool(const std::vector<Sighting>& seen, const SuggestedTool& tool,
                SuggestedReplay& sums) {
  struct Last {
    std::size_t call, intent;
  };
  std::map<std::pair<std::pair<std::uint64_t, std::uint64_t>, KeyValues>, Last> operations;
  for (std::size_t i = 0; i < tool.seen.calls.size(); ++i) {
    const std::size_t number = tool.seen.calls[i];
    const Sighting& call = seen[number];
    ++sums.writes;
    const auto key = std::pair(std::pair(call.caller, call.trace), KeyValuesOf(call, tool, true));
    const Last now{number, tool.identity.intent_of[i]};
    const auto [at, is_new] = operations.try_emplace(key, now);
    if (is_new) continue;
    const Sighting& first = seen[at->second.call];
    const bool is_near = call.wall_ms - first.wall_ms <= kWindowMs;
    const bool is_repeat =
        call.trace != 0 || first.InvitesRepeat() || (!tool.identity.identity.empty() && is_near);
    if (!is_repeat) {
      at->second = now;
      continue;
    }
    ++sums.repeats;
    sums.refused += KeyValuesOf(first, tool, false) != KeyValuesOf(call, tool, false);
    sums.merged += at->second.intent != now.intent && !first.InvitesRepeat();
  }
}

void JudgeListed(const std::vector<Sighting>& seen, const Tool& listed, const SeenTool& tool,
                 Suggestion& made) {
  SuggestedTool as_listed{listed.name, tool, InferIdentity(seen, tool), {}, {}};
  ListedVerdict verdict{listed.name, false, as_listed.identity.repeats, 0, 0};
  verdict.is_judged = TakeIdentityOf(listed, tool, as_listed.identity);
  if (verdict.is_judged) {
    SuggestedReplay sums;
    ReplayTool(seen, as_listed, sums);
    verdict.merged = sums.merged;
    verdict.caught = std::min(sums.repeats - sums.merged, verdict.repeats);
    made.replay.writes += sums.writes;
    made.replay.repeats += sums.repeats;
    made.replay.refused += sums.refused;
    made.replay.merged += sums.merged;
  }
  made.judged.push_back(std::move(verdict));
}

}  // namespace

Suggestion SuggestTools(const std::vector<Sighting>& seen, const std::vector<KnownOperation>& known,
                        const Policy* policy) {
  Suggestion made;
  made.calls = static_cast<std::size_t>(
      std::ranges::count_if(seen, [](const Sighting& one) { return one.hints.empty(); }));
  const std::vector<SeenTool> tools = ToolsOf(seen, known);
  const TrafficLinks links(seen, tools);
  std::set<std::string> taken;
  if (policy != nullptr) {
    for (const Tool& listed : policy->tools) taken.insert(listed.name);
  }
  std::map<std::size_t, std::string> undone_by;  // by the tool that undoes: what it undoes
  std::vector<std::size_t> numbers;
  for (std::size_t t = 0; t < tools.size(); ++t) {
    const SeenTool& tool = tools[t];
    for (const std::size_t call : tool.calls) {
      taken.insert(seen[call].tool);
      made.writes += !tool.IsRead();
      made.untraced += !tool.IsRead() && seen[call].trace == 0 && seen[call].agent_key == 0;
    }
    const Tool* const listed = policy == nullptr ? nullptr : ListedTool(*policy, seen, tool);
    const bool was_listed =
        policy == nullptr &&
        std::ranges::any_of(tool.calls, [&](std::size_t call) { return !seen[call].tool.empty(); });
    if (listed != nullptr || was_listed) {
      ++made.listed;
      if (listed != nullptr && listed->effect != Effect::kRead) {
        JudgeListed(seen, *listed, tool, made);
      }
      continue;
    }
    if (NeverRan(seen, tool)) {
      made.left_out.push_back(tool.name + ": no call of it succeeded");
      continue;
    }
    // HEAD is served by the route for GET.
    if (tool.method == "HEAD" || tool.method == "OPTIONS") continue;
    SuggestedTool suggested{NameFor(tool, taken), tool, {}, {}, {}};
    if (!tool.IsRead()) {
      suggested.identity = InferIdentity(seen, tool);
      suggested.links = links.Of(t, suggested.identity);
      suggested.links.put_back = InferPutBack(seen, tools, tool);
      ReplayTool(seen, suggested, made.replay);
    }
    if (suggested.links.undo) undone_by.try_emplace(suggested.links.undo->tool, suggested.name);
    made.tools.push_back(std::move(suggested));
    numbers.push_back(t);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto undone = undone_by.find(numbers[i]);
    if (undone != undone_by.end()) made.tools[i].takes_back = undone->second;
  }
  return made;
}

}  // namespace recourse
