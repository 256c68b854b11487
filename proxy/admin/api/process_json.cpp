#include "proxy/admin/api/process_json.h"

#include <optional>

#include "filters/ledger/shared_view.h"
#include "filters/mcp/missing_tools.h"
#include "proxy/admin/views/member_kinds.h"
#include "proxy/config/build_commit.h"

namespace recourse {
namespace {

namespace process_members {

using member::Bool, member::Id, member::Number, member::Object, member::Objects, member::Raw,
    member::Text, member::TextIfAny, member::Texts, member::Word;

constexpr std::string_view kModes = R"({"type": "string", "enum": ["enforce", "observe"]})";

std::string_view NameOf(Mode mode) { return mode == Mode::kObserve ? "observe" : "enforce"; }

std::string_view StateOf(const ProcessApi::Work& work) {
  return work.is_draining ? "draining" : work.is_ready ? "ready" : "starting";
}

std::vector<std::string> NamesOf(const std::vector<McpToolName>& tools) {
  std::vector<std::string> names;
  for (const McpToolName& one : tools) names.push_back(one.backend + ' ' + one.name);
  return names;
}

// The policy that is in force.
constexpr JsonMember<ProcessFacts> kPolicy[] = {
    Text<[](const ProcessFacts& of) -> const auto& { return of.policy.version; }>("version"),
    Text<[](const ProcessFacts& of) { return of.reloader.path(); }>("path"),
    Text<[](const ProcessFacts& of) {
      const ReloadReport last = of.reloader.last();
      return std::string(last.trigger == "start" ? "none" : NameOf(last.result));
    }>("last_reload"),
};
constexpr JsonMember<LedgerStats> kFlows[] = {
    Number<&LedgerStats::flows_open>("open"),
    Number<&LedgerStats::flows_breaking>("breaking", "Or being undone"),
    Number<&LedgerStats::flows_parked>("parked"),
    Number<&LedgerStats::flows_stopped>("stopped",
                                        "By their deadline, unfinished; not among the parked"),
};
using UnknownCallers = decltype(ProcessApi::Work::unknown_callers);
constexpr JsonMember<UnknownCallers> kUnknownCallers[] = {
    Number<&UnknownCallers::reads>("reads", "They passed"),
    Number<&UnknownCallers::writes>("writes", "They were refused, or observed"),
};

// A start of a process of the group, with what its policy said if that is known here.
struct Stream {
  LedgerStream facts;
  std::optional<Mode> mode;
};
std::optional<std::vector<Stream>> StreamsOf(const ProcessFacts& of) {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&of.ledger);
  auto found = shared != nullptr ? shared->Streams() : Result<std::vector<LedgerStream>>();
  if (shared == nullptr || !found) return std::nullopt;
  std::vector<Stream> streams;
  for (LedgerStream& one : *found) {
    const auto policy = of.reloader.versions().Of(one.policy);
    const bool is_known = policy->version == one.policy;
    streams.push_back({std::move(one), is_known ? std::optional(policy->mode) : std::nullopt});
  }
  return streams;
}
constexpr JsonMember<Stream> kStream[] = {
    Number<[](const Stream& of) { return of.facts.stream; }>("stream"),
    Text<[](const Stream& of) -> std::string_view { return of.facts.pod; }>("pod"),
    Text<[](const Stream& of) -> std::string_view { return of.facts.state; }>(
        "state", "",
        R"({"type": "string", "enum": ["live", "silent", "taken over", "being imported"]})"),
    TextIfAny<[](const Stream& of) -> std::string_view { return of.facts.policy; }>("policy"),
    Text<[](const Stream& of) {
      return of.mode.transform([](Mode mode) { return NameOf(mode); });
    }>("mode", "", R"({"type": "string", "enum": ["observe", "enforce"]})")
        .MayLack(),
    Number<[](const Stream& of) { return of.facts.rows; }>("rows"),
    Number<[](const Stream& of) { return of.facts.running; }>(
        "running",
        "What is open: calls being sent, of unknown outcome or waiting for a human, and flows"),
    Number<[](const Stream& of) { return of.facts.silent_s; }>(
        "silent_s", "Since its last sign of life, which an idle one gives once a minute"),
};

constexpr JsonMember<KeptRows::Behind> kBehind[] = {
    Id<&KeptRows::Behind::row>("row"),
    Id<[](const KeptRows::Behind& of) {
      return of.operation != 0 ? std::optional(of.operation) : std::nullopt;
    }>("operation")
        .MayLack(),
    Number<&KeptRows::Behind::rows>("rows", "With it; counted up to 100,000"),
    Number<&KeptRows::Behind::age_s>("age_s"),
};
constexpr JsonMember<KeptRows> kKept[] = {
    Bool<&KeptRows::nobody_removes>("nobody_removes",
                                    "No process that may remove them has had its turn in time"),
    Objects<&KeptRows::behind, kBehind>("behind", "",
                                        "What is open, and holds the old rows of its stream"),
};
std::optional<KeptRows> KeptOf(const ProcessFacts& of) {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&of.ledger);
  auto kept = shared != nullptr ? shared->Kept(of.policy.ledger) : Result<KeptRows>();
  if (shared == nullptr || !kept) return std::nullopt;
  return std::move(*kept);
}

constexpr JsonMember<ProcessFacts> kStatus[] = {
    Text<[](const ProcessFacts&) { return RECOURSE_VERSION; }>("version"),
    Text<[](const ProcessFacts&) { return BuildCommit(); }>("commit"),
    Text<[](const ProcessFacts& of) { return StateOf(of.work); }>(
        "state", "", R"({"type": "string", "enum": ["starting", "ready", "draining"]})"),
    Bool<&ProcessFacts::is_settled>(
        "settled",
        "Nothing is being worked on; what waits for a human, and an unknown outcome that no settle "
        "request can tell, is not counted"),
    Word<[](const ProcessFacts& of) { return NameOf(of.policy.mode); }>("mode", kModes),
    Word<&ProcessFacts::started>("started", "Time"),
    Number<&ProcessFacts::up_s>("uptime_s"),
    Text<[](const ProcessFacts&) { return NameOf(LeastLogLevel()); }>("log_level"),
    Object<[](const ProcessFacts& of) -> const auto& { return of; }, kPolicy>("policy"),
    Number<[](const ProcessFacts& of) { return of.work.agents_port; }>(
        "agents_port", "", R"({"type": "integer", "minimum": 0, "maximum": 65535})"),
    Number<[](const ProcessFacts& of) { return of.work.connections; }>("connections", "Of agents"),
    Number<[](const ProcessFacts& of) { return of.work.writes; }>("writes", "Being worked on"),
    Object<[](const ProcessFacts& of) -> const auto& { return of.stats; }, kFlows>("flows"),
    Raw<[](const ProcessFacts& of) { return ToJson(of.work.flow_counts); }>("flow_counts",
                                                                            "FlowCounts"),
    Object<[](const ProcessFacts& of) -> const auto& { return of.work.unknown_callers; },
           kUnknownCallers>(
        "unknown_callers", "",
        "Calls since the start of the process without what the policy's `callers` names"),
    Number<[](const ProcessFacts& of) { return of.stats.approvals_pending; }>("approvals_pending"),
    Texts<[](const ProcessFacts& of) {
      return NamesOf(MissingTools(of.policy, *of.work.mcp_tools));
    }>("missing_tools",
       "\"BACKEND TOOL\": tools that the policy names and their MCP servers, whose lists have "
       "passed, do not have"),
    Texts<[](const ProcessFacts& of) {
      return NamesOf(RedeclaredTools(of.policy, *of.work.mcp_tools));
    }>("redeclared_tools",
       "\"BACKEND TOOL\": tools whose MCP servers declare other effects than those that the policy "
       "took over"),
    Raw<[](const ProcessFacts& of) { return ToJson(of.stats); }>("ledger", "Ledger"),
    Objects<StreamsOf, kStream>(
        "streams", "",
        "Of a shared ledger: what each start of a process of the group has written, but for those "
        "that left nothing")
        .MayLack(),
    Object<KeptOf, kKept>(
        "retention", "",
        "Of a shared ledger: rows of the group that are older than they have to be")
        .MayLack(),
};

constexpr JsonMember<LogLevel> kLogLevel[] = {
    Word<[](const LogLevel& level) { return NameOf(level); }>(
        "level", R"({"type": "string", "enum": ["debug", "info", "warn", "error"]})"),
};
constexpr JsonMember<Policy> kVersion[] = {
    Text<[](const Policy&) { return RECOURSE_VERSION; }>("version"),
    Text<[](const Policy&) { return BuildCommit(); }>("commit"),
    Text<&Policy::version>("policy_version"),
};

}  // namespace process_members
}  // namespace

std::string StatusJson(const ProcessFacts& facts) {
  return ObjectText([&](JsonObject& json) { WriteMembers(json, process_members::kStatus, facts); });
}

std::string LogLevelJson(LogLevel level) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, process_members::kLogLevel, level); });
}

std::string VersionJson(const Policy& policy) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, process_members::kVersion, policy); });
}

std::vector<JsonShape> ProcessShapes() {
  return {
      {"ProcessStatus", "", DocsOf(process_members::kStatus)},
      {"LogLevel", "", DocsOf(process_members::kLogLevel)},
      {"Version", "", DocsOf(process_members::kVersion)},
  };
}

}  // namespace recourse
