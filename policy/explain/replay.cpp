#include "policy/explain/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "policy/explain/explain.h"
#include "policy/language/loader.h"
#include "policy/model/route_table.h"

namespace recourse {
namespace {

constexpr std::string_view kUnlisted = "unlisted.";
constexpr std::size_t kExamplesShown = 3;

std::string ScopeName(const ScopeRule& scope) {
  switch (scope.kind) {
    case ScopeRule::Kind::kTrace:
      return "trace";
    case ScopeRule::Kind::kSession:
      return "session";
    case ScopeRule::Kind::kCaller:
      return "caller";
    case ScopeRule::Kind::kGlobal:
      return "global";
    case ScopeRule::Kind::kHeader:
      return "header." + scope.name;
    case ScopeRule::Kind::kBody:
      return "body#" + scope.name;
    case ScopeRule::Kind::kBaggage:
      return "baggage." + scope.name;
  }
  return {};
}

// The parts of a tool's keys by name, as far as the policy alone says them.
std::string KeyParts(const Tool* tool) {
  if (tool == nullptr) return "caller, trace, args";
  std::string parts = "caller, " + ScopeName(tool->scope);
  for (const Selector& selector : tool->identity) parts += ", " + selector.text;
  if (tool->identity.empty()) parts += ", args";
  for (const std::string& pointer : tool->ignore) parts += " without " + pointer;
  return parts;
}

std::string Described(std::string_view tool) {
  if (tool.starts_with(kUnlisted)) return "an unlisted write";
  return "tool " + std::string(tool);
}

// A message to an endpoint of which only that is known.
bool IsUntold(const PastCall& past, const Explanation& now) {
  return past.method == "POST" && now.backend != nullptr && now.backend->has_endpoint() &&
         now.mcp_tool.empty() && now.path == now.backend->endpoint;
}

ExplainedCall CallOf(const PastCall& past) {
  ExplainedCall call;
  call.method = past.method;
  call.backend = past.backend;
  call.target = past.path + (past.query && !past.query->empty() ? "?" + *past.query : "");
  call.headers = past.headers;
  call.body = past.body.value_or("");
  return call;
}

// Whether everything that the key is made of is in the export.
std::string WhyKeyUnknown(const PastCall& past, const Explanation& now) {
  const bool has_args = past.body.has_value();
  const Tool* tool = now.tool;
  if (tool != nullptr && tool->scope.kind != ScopeRule::Kind::kTrace &&
      tool->scope.kind != ScopeRule::Kind::kCaller &&
      tool->scope.kind != ScopeRule::Kind::kGlobal) {
    return "headers are not kept";
  }
  if (tool == nullptr || tool->identity.empty()) {
    return has_args && past.query ? "" : "arguments are not kept";
  }
  for (const Selector& selector : tool->identity) {
    if (selector.source == Selector::Source::kBody && !has_args) return "arguments are not kept";
    if (selector.source == Selector::Source::kQuery && !past.query) return "queries are not kept";
    if (selector.source == Selector::Source::kHeader) return "headers are not kept";
  }
  return {};
}

std::string KeyOf(const PastCall& past, const Explanation& now) {
  std::string key = past.caller + '\n' + (now.tool == nullptr ? "" : now.tool->name);
  const bool in_trace = now.tool == nullptr || now.tool->scope.kind == ScopeRule::Kind::kTrace;
  if (in_trace) key += '\n' + past.trace_id;
  if (now.tool == nullptr || now.tool->identity.empty()) {
    return key + '\n' + past.method + '\n' + CallOf(past).target + '\n' + past.body.value_or("");
  }
  for (const KeyPart& part : now.key) key += '\n' + part.name + '=' + part.source;
  return key;
}

void CompareKeys(const PastCall& past, const Explanation& now, const Policy* before,
                 ReplayVerdict& verdict) {
  const bool is_guarded = !now.key.empty();
  if (!is_guarded) {
    verdict.changes.emplace_back("it would only be logged: repeats would run again");
    return;
  }
  const bool was_unlisted = past.tool.starts_with(kUnlisted);
  const Tool* was = before == nullptr || was_unlisted ? nullptr : before->FindTool(past.tool);
  const bool same_name = now.tool == nullptr ? was_unlisted : now.tool->name == past.tool;
  if (same_name && was != nullptr && KeyParts(was) != KeyParts(now.tool)) {
    verdict.changes.push_back("its key would be made of " + KeyParts(now.tool) + " instead of " +
                              KeyParts(was));
  }
}

// What enforce would have done, by the word of observe mode.
std::size_t ObservedCounts::* ColumnOf(std::string_view verdict) {
  static const std::map<std::string_view, std::size_t ObservedCounts::*> kColumnOfVerdict{
      {"fresh", &ObservedCounts::sent},
      {"would_hold", &ObservedCounts::sent},
      {"would_replay", &ObservedCounts::replayed},
      {"would_join", &ObservedCounts::joined},
      {"would_be_unknown", &ObservedCounts::in_doubt},
      {"would_resend", &ObservedCounts::in_doubt},
      {"would_conflict", &ObservedCounts::refused},
      {"would_refuse", &ObservedCounts::refused},
      {"would_ask", &ObservedCounts::asks}};
  const auto at = kColumnOfVerdict.find(verdict);
  return at == kColumnOfVerdict.end() ? &ObservedCounts::untold : at->second;
}

// Whether that it is refused, or not, hangs on arguments that the export does not hold.
bool IsJudgedByArguments(const PastCall& past, const Explanation& now) {
  const bool has_conditions =
      now.tool != nullptr && !(now.tool->deny.empty() && now.tool->allow.empty());
  return has_conditions && !past.body;
}

// The verdict holds where the key would be made of the same parts; else the arguments, which no
// export holds, decide.
void JudgeObserved(const PastCall& past, const Explanation& now, const Policy* before,
                   ReplayVerdict& verdict) {
  verdict.tool = now.tool != nullptr ? now.tool->name : std::string(kUnlisted) + past.backend;
  if (!now.refused.empty() && !IsJudgedByArguments(past, now)) {
    verdict.counted = &ObservedCounts::refused;
    return;
  }
  const bool was_unlisted = past.tool.starts_with(kUnlisted);
  const Tool* const was = before == nullptr ? nullptr : before->FindTool(past.tool);
  const bool is_known = (was_unlisted || was != nullptr) && !IsJudgedByArguments(past, now);
  if (!is_known || KeyParts(was) != KeyParts(now.tool)) {
    verdict.counted = &ObservedCounts::untold;
    return;
  }
  verdict.key_unknown.clear();
  verdict.counted = ColumnOf(past.verdict);
  const bool asks = now.tool != nullptr && now.tool->approval && now.tool->approval->when.empty() &&
                    !now.tool->approval->only_suspected;
  if (asks && verdict.counted == &ObservedCounts::sent) verdict.counted = &ObservedCounts::asks;
}

}  // namespace

ReplayVerdict ReplayCall(const PastCall& past, const Policy& after, const Policy* before) {
  const bool is_observed = !past.verdict.empty();
  ReplayVerdict verdict;
  const Explanation now = Explain(after, CallOf(past));
  const std::string name =
      now.tool != nullptr ? now.tool->name : std::string(kUnlisted) + past.backend;
  if (IsUntold(past, now)) {
    verdict.key_unknown = "the messages to " +
                          std::string(now.backend->is_mcp() ? "an MCP" : "a GraphQL") +
                          " endpoint are not kept";
    verdict.tool = name;
    if (is_observed) verdict.counted = &ObservedCounts::untold;
    return verdict;
  }
  if (!now.refused.empty() && IsJudgedByArguments(past, now)) {
    verdict.key_unknown = "arguments are not kept, and `deny` or `allow` reads them";
  } else if (!now.refused.empty()) {
    verdict.changes.push_back("it would be refused (" + now.refused + "): " + now.reason);
  } else {
    if (name != past.tool && !is_observed) {
      verdict.changes.push_back("it would be " + Described(name) +
                                ", so repeats of the earlier call would be new calls");
    }
    if (now.effect == Effect::kRead) {
      if (!is_observed) {
        verdict.changes.emplace_back("it would be a read: passed on, not keyed, not remembered");
      }
    } else {
      if (!is_observed) CompareKeys(past, now, before, verdict);
      verdict.key_unknown = WhyKeyUnknown(past, now);
      if (verdict.key_unknown.empty() && !now.key.empty()) verdict.key = KeyOf(past, now);
    }
  }
  const bool is_read = now.refused.empty() && now.effect == Effect::kRead;
  if (is_observed && !is_read) JudgeObserved(past, now, before, verdict);
  for (const std::string& change : verdict.changes) {
    verdict.group += (verdict.group.empty() ? Described(past.tool) + ": " : "; ") + change;
  }
  return verdict;
}

namespace {

struct Group {
  std::uint64_t calls = 0;
  std::vector<std::string> examples;  // events

  void Add(const std::string& event) {
    ++calls;
    if (examples.size() < kExamplesShown) examples.push_back(event);
  }
};

class Summary {
 public:
  void Add(const PastCall& past, const ReplayVerdict& verdict) {
    ++calls_;
    observed_ += past.verdict.empty() ? 0 : 1;
    if (verdict.counted != nullptr) {
      ObservedCounts& counts = tools_[verdict.tool];
      ++counts.seen;
      ++(counts.*verdict.counted);
    }
    if (!verdict.group.empty()) changed_[verdict.group].Add(past.event);
    if (!verdict.key_unknown.empty()) {
      unknown_[Described(past.tool) + ": key cannot be recomputed: " + verdict.key_unknown].Add(
          past.event);
    }
    if (!verdict.key.empty()) keys_[verdict.key].push_back(&past);
    if (!past.related.empty()) repeats_.emplace_back(&past, verdict.key);
  }

  // False: nothing changes. `policy` is how its user named it; the one before may be unknown.
  bool Print(std::ostream& out, const std::string& policy, bool has_before) const {
    if (!tools_.empty()) out << CountsTable(tools_) << "\n";
    for (const auto& [text, group] : changed_) PrintGroup(out, "changed ", text, group);
    const std::uint64_t merged = PrintMerged(out);
    const std::uint64_t split = PrintSplit(out);
    for (const auto& [text, group] : unknown_) PrintGroup(out, "unknown ", text, group);
    std::uint64_t changed = 0;
    for (const auto& [text, group] : changed_) changed += group.calls;
    out << fmt::format(
        "{} past write calls: {} classed otherwise, {} that would be repeats of another, {} "
        "repeats "
        "that would be calls of their own\n",
        calls_, changed, merged, split);
    if (observed_ == 0) {
      if (!has_before && !unknown_.empty()) {
        out << fmt::format(
            "next: recourse policy replay --policy {} --before OLD.yaml: the export has not all of "
            "what keys are made of, and both policies tell whether that changes\n",
            policy);
      }
      return changed + merged + split > 0;
    }
    PrintNext(out, policy, merged);
    return merged > 0 || (observed_ < calls_ && changed + split > 0);
  }

 private:
  void PrintNext(std::ostream& out, const std::string& policy, std::uint64_t merged) const {
    std::size_t untold = 0;
    for (const auto& [tool, counts] : tools_) untold += counts.untold;
    if (merged > 0) {
      out << "next: name in `identity` what tells the merged calls apart, and replay again\n";
    } else if (untold > 0) {
      out << fmt::format(
          "next: recourse policy replay --data DIR --policy {}: an export has no arguments, and of "
          "{} they decide; observe mode keeps hashes of them in DIR\n",
          policy, untold);
    } else {
      out << "next: recourse policy check --strict " << policy << "\n";
    }
  }

  static void PrintGroup(std::ostream& out, std::string_view label, const std::string& text,
                         const Group& group) {
    std::string events;
    for (const std::string& event : group.examples) {
      events += (events.empty() ? "" : ", ") + event;
    }
    out << fmt::format("{} {:>6}  {} (event {}{})\n", label, group.calls, text, events,
                       group.calls > group.examples.size() ? ", ..." : "");
  }

  // Different operations of the past that would have one key.
  std::uint64_t PrintMerged(std::ostream& out) const {
    std::map<std::string, Group> groups;
    std::uint64_t merged = 0;
    for (const auto& [key, calls] : keys_) {
      for (std::size_t i = 1; i < calls.size(); ++i) {
        if (!calls[i]->related.empty()) continue;  // a repeat in the past too
        ++merged;
        groups[Described(calls[i]->tool) +
               ": it would be a repeat of an earlier call, answered from the ledger"]
            .Add(calls[i]->event);
      }
    }
    for (const auto& [text, group] : groups) PrintGroup(out, "merged  ", text, group);
    return merged;
  }

  // Repeats of the past whose key would be another one than that of the call that they repeated.
  std::uint64_t PrintSplit(std::ostream& out) const {
    std::map<std::string, const std::string*> key_of;
    for (const auto& [key, calls] : keys_) {
      for (const PastCall* call : calls) key_of[call->operation] = &key;
    }
    std::map<std::string, Group> groups;
    std::uint64_t split = 0;
    for (const auto& [call, key] : repeats_) {
      const auto first = key_of.find(call->related);
      if (key.empty() || first == key_of.end() || *first->second == key) continue;
      ++split;
      groups[Described(call->tool) + ": it repeated an earlier call and would be a new one"].Add(
          call->event);
    }
    for (const auto& [text, group] : groups) PrintGroup(out, "split   ", text, group);
    return split;
  }

  std::uint64_t calls_ = 0, observed_ = 0;
  std::map<std::string, ObservedCounts> tools_;  // of observed calls
  std::map<std::string, Group> changed_, unknown_;
  std::map<std::string, std::vector<const PastCall*>> keys_;
  std::vector<std::pair<const PastCall*, std::string>> repeats_;
};

// Null: its problems were printed.
std::shared_ptr<const Policy> LoadOrTell(const std::string& path, std::ostream& err) {
  LoadedPolicy loaded = LoadPolicy(path);
  if (loaded.ok()) return loaded.policy;
  for (const PolicyProblem& problem : loaded.problems) err << problem.ToString() << "\n";
  return nullptr;
}

}  // namespace

int RunPolicyReplay(const std::string& exported, const std::string& after,
                    const std::string& before, std::ostream& out, std::ostream& err) {
  const auto policy = LoadOrTell(after, err);
  const auto old = before.empty() ? nullptr : LoadOrTell(before, err);
  if (policy == nullptr || (old == nullptr && !before.empty())) return 3;
  std::ifstream in(exported, std::ios::binary);
  if (!in) {
    err << "recourse: cannot open " << exported << "; give the file of an export\n";
    return 2;
  }
  const auto calls = ReadExport(in);
  if (!calls) {
    err << "recourse: " << exported << ": " << calls.error() << "\n";
    return 2;
  }
  Summary summary;
  for (const PastCall& call : *calls) summary.Add(call, ReplayCall(call, *policy, old.get()));
  return summary.Print(out, after, old != nullptr) ? 1 : 0;
}

}  // namespace recourse
