#include "policy/explain/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "policy/explain/explain.h"
#include "policy/language/loader.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

constexpr std::string_view kUnlisted = "unlisted.";
constexpr std::size_t kExamplesShown = 3;

// "17" or "42.17"; empty: there is none.
std::string IdOf(const Json& event, std::string_view name) {
  std::string text = ScalarText(event, name);
  const bool is_id = text != "0" && text.find_first_not_of("0123456789.") == std::string::npos;
  return is_id ? text : std::string();
}
// In the order of one stream's numbers.
struct ById {
  bool operator()(const std::string& a, const std::string& b) const {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  }
};

std::optional<std::string> OptionalText(const Json& event, std::string_view name) {
  const Json* value = event.Find(name);
  if (value == nullptr || value->kind == Json::Kind::kNull) return std::nullopt;
  return value->is_scalar() ? ScalarText(*value) : CanonicalJson(*value);
}

std::optional<PastCall> ReadCall(const Json& event) {
  PastCall call;
  call.event = IdOf(event, "event_id");
  call.operation = IdOf(event, "operation");
  call.related = IdOf(event, "related");
  call.tool = ScalarText(event, "tool");
  call.backend = ScalarText(event, "backend");
  call.caller = ScalarText(event, "caller");
  call.trace_id = ScalarText(event, "trace_id");
  call.method = ScalarText(event, "method");
  call.path = ScalarText(event, "path");
  call.policy_version = ScalarText(event, "policy_version");
  call.query = OptionalText(event, "query");
  call.body = OptionalText(event, "body");
  if (call.operation.empty() || call.method.empty() ||
      !(call.path.starts_with('/') || call.method == kToolsCall || call.method == kMutation)) {
    return std::nullopt;
  }
  return call;
}

class ExportReader {
 public:
  // Empty: taken. Else what is wrong.
  std::string Take(std::string_view line) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    is_empty_ = false;
    const auto json = ParseJson(line.substr(first, line.find_last_not_of(" \t\r") + 1 - first));
    if (!json) return "not one JSON value: " + std::string(json.error().detail());
    if (json->kind != Json::Kind::kArray) return TakeEvent(*json);
    for (const Json& event : json->items) {
      if (std::string problem = TakeEvent(event); !problem.empty()) return problem;
    }
    return {};
  }
  // As Take, of the whole file.
  std::string Finish() const {
    if (is_empty_) return "it is empty; give what `recourse ledger export` prints";
    if (!is_open_) return {};
    return "its last line ({\"kind\":\"end\",...}) is missing, so it was cut off; export again, "
           "or " +
           std::string("export the rest with --after ") + last_event_ + " and append it";
  }
  std::vector<PastCall> calls() && {
    std::vector<PastCall> all;
    for (auto& [operation, call] : calls_) all.push_back(std::move(call));
    return all;
  }

 private:
  std::string TakeEvent(const Json& event) {
    if (event.kind != Json::Kind::kObject) return "an event is a JSON object";
    // A row of the hash chain (--format ndjson) tells its event.
    const Json* const told = event.Find("event");
    if (told != nullptr && told->kind == Json::Kind::kObject) return TakeEvent(*told);
    // Other rows of the ledger have no operation.
    if (event.Find("operation") == nullptr && event.Find("kind") != nullptr) {
      const std::string kind = ScalarText(event, "kind");
      if (kind == "export" || kind == "end") is_open_ = kind == "export";
      return {};
    }
    auto call = ReadCall(event);
    if (!call) return "an event has operation, method and path (see `recourse events list --json`)";
    last_event_ = call->event;
    if (!IdOf(event, "undoes").empty()) return {};  // sent by Recourse: nobody's call
    const std::string operation = call->operation;
    const auto [at, is_new] = calls_.try_emplace(operation, std::move(*call));
    if (is_new && calls_.size() > limits::kReplayCallsMax) {
      return "more than " + std::to_string(limits::kReplayCallsMax) +
             " operations; replay the export in parts";
    }
    // Later rows of an operation may hold what the first one does not.
    if (!is_new && !at->second.body && call->body) at->second.body = std::move(call->body);
    return {};
  }

  std::map<std::string, PastCall, ById> calls_;
  bool is_empty_ = true;
  bool is_open_ = false;  // the first line of an export was seen, and not yet its last
  std::string last_event_ = "0";
};

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

}  // namespace

ReplayVerdict ReplayCall(const PastCall& past, const Policy& after, const Policy* before) {
  ReplayVerdict verdict;
  const Explanation now = Explain(after, CallOf(past));
  const std::string name =
      now.tool != nullptr ? now.tool->name : std::string(kUnlisted) + past.backend;
  if (IsUntold(past, now)) {
    verdict.key_unknown = "the messages to " +
                          std::string(now.backend->is_mcp() ? "an MCP" : "a GraphQL") +
                          " endpoint are not kept";
    return verdict;
  }
  if (!now.refused.empty()) {
    verdict.changes.push_back("it would be refused (" + now.refused + "): " + now.reason);
  } else {
    if (name != past.tool) {
      verdict.changes.push_back("it would be " + Described(name) +
                                ", so repeats of the earlier call would be new calls");
    }
    if (now.effect == Effect::kRead) {
      verdict.changes.emplace_back("it would be a read: passed on, not keyed, not remembered");
    } else {
      CompareKeys(past, now, before, verdict);
      verdict.key_unknown = WhyKeyUnknown(past, now);
      if (verdict.key_unknown.empty() && !now.key.empty()) verdict.key = KeyOf(past, now);
    }
  }
  for (const std::string& change : verdict.changes) {
    verdict.group += (verdict.group.empty() ? Described(past.tool) + ": " : "; ") + change;
  }
  return verdict;
}

std::expected<std::vector<PastCall>, std::string> ReadExport(std::istream& in) {
  ExportReader reader;
  std::string line;
  for (std::uint64_t number = 1; std::getline(in, line); ++number) {
    if (std::string problem = reader.Take(line); !problem.empty()) {
      return std::unexpected("line " + std::to_string(number) + ": " + problem);
    }
  }
  if (in.bad()) return std::unexpected("it cannot be read to its end");
  if (std::string problem = reader.Finish(); !problem.empty()) return std::unexpected(problem);
  return std::move(reader).calls();
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
    if (!verdict.group.empty()) changed_[verdict.group].Add(past.event);
    if (!verdict.key_unknown.empty()) {
      unknown_[Described(past.tool) + ": key cannot be recomputed: " + verdict.key_unknown].Add(
          past.event);
    }
    if (!verdict.key.empty()) keys_[verdict.key].push_back(&past);
    if (!past.related.empty()) repeats_.emplace_back(&past, verdict.key);
  }

  // False: nothing changes.
  bool Print(std::ostream& out) const {
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
    return changed + merged + split > 0;
  }

 private:
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

  std::uint64_t calls_ = 0;
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
  return summary.Print(out) ? 1 : 0;
}

}  // namespace recourse
