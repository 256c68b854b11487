// A policy while it is being read: the values so far and where they stand in the files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/language/config_reader.h"
#include "policy/language/loader.h"
#include "policy/language/yaml_reader.h"
#include "policy/model/policy.h"

namespace recourse {

class RouteTable;

struct PolicyBuilder {
  explicit PolicyBuilder(Problems& all) : problems(all) {}

  // Where the tool's word stands, or the tool itself when it has no such word.
  Place ToolPlace(std::size_t tool, std::string_view word) const;
  std::string ToolKey(std::size_t tool, std::string_view word) const;
  bool ToolHas(std::size_t tool, std::string_view word) const;
  // A request that asks; `settle: none` is none.
  bool HasSettle(std::size_t tool) const;
  std::vector<std::string> BackendNames() const;
  std::vector<std::string> ToolNames() const;

  Problems& problems;
  TlsFiles tls_files = TlsFiles::kIgnore;
  Policy policy;
  std::map<std::string, std::size_t, std::less<>> backends;  // index by name
  std::vector<std::size_t> intercepted;                      // backends, by index
  std::map<std::string, std::size_t, std::less<>> tools;
  std::map<std::string, Place, std::less<>> flows;
  // By index of the tool: the flow that names it, and where.
  std::map<std::size_t, std::pair<std::string, Place>> flow_of_tool;
  // By index of the tool or backend. The trees outlive the draft.
  std::vector<const YamlNode*> tool_nodes;
  std::vector<Place> tool_places, backend_places, tunnel_places;
  std::vector<LocatedText> quota_callers;
  std::vector<LocatedText> approvers;  // the names in `by` of all tools
};

// The sections of one file, each in its own source file. Backends of all files come first, because
// tools name them; then tools; then the rest.
void LoadBackends(const YamlNode& section, PolicyBuilder& draft);
void LoadTools(const YamlNode& section, PolicyBuilder& draft);
void LoadFlows(const YamlNode& section, PolicyBuilder& draft);
void LoadTests(const YamlNode& section, PolicyBuilder& draft);
// Settings of the whole policy: each in one file only.
void LoadLedger(const YamlNode& section, PolicyBuilder& draft);
void LoadQuotas(const YamlNode& section, PolicyBuilder& draft);
void LoadCallers(const YamlNode& section, PolicyBuilder& draft);
void LoadFlowRules(const YamlNode& section, PolicyBuilder& draft);
void LoadTunnels(MapReader& root, PolicyBuilder& draft);

// False: neither its backend nor its calls are known, which is reported already.
bool HasMatch(const Tool& tool);

// What only the whole policy shows: ambiguous routes, cycles of undo requests, missing undo.
void Validate(PolicyBuilder& draft);

// Backends that have a name or a server in common are told apart by their paths, and agree in what
// is decided before a path is known. A part of Validate.
void CheckAuthorities(PolicyBuilder& draft);
// What the `credentials` of backends and tools must agree with. A part of Validate.
void CheckBackendCredentials(PolicyBuilder& draft);
// Tools of an MCP server by path, where another backend of the same url serves that path. A part of
// Validate; `routes` are those of the draft.
void CheckPathOwners(PolicyBuilder& draft, const RouteTable& routes);

// Credentials of a call go only where nobody is shown them. A part of Validate.
void CheckCredentials(PolicyBuilder& draft, std::size_t index);

// What an undo rule must agree with elsewhere: the route it runs over, its backend, the ledger. A
// part of Validate; `routes` are those of the draft.
void CheckUndo(PolicyBuilder& draft, const RouteTable& routes, std::size_t index);

// Quotas of callers that nobody can be, as `callers` names them. A part of Validate.
void CheckQuotaNames(PolicyBuilder& draft);

// What `before` keeps, what the undo takes of it, and `only_if`. A part of Validate.
void CheckBefore(PolicyBuilder& draft, const RouteTable& routes, std::size_t index);

// The tools that `same_as` names. A part of Validate.
void CheckSameAs(PolicyBuilder& draft, std::size_t index);

// What `superseded_by` names. A part of Validate.
void CheckSuperseding(PolicyBuilder& draft, std::size_t index);
// Tools called by a name that says that they set something, of which nothing else is known.
void WarnAboutSetting(PolicyBuilder& draft, std::size_t index);

// What is valid, and hardly what was meant. A part of Validate, of reads too.
void WarnAboutSlips(PolicyBuilder& draft, std::size_t index);

// Which calls may be the undo of another one. A part of Validate.
void NoteUndoes(PolicyBuilder& draft, std::size_t index);

// Places of calls and answers that nothing can ever have. A part of Validate.
void WarnAboutPointers(PolicyBuilder& draft, std::size_t index);

// No tunnel may lead where a backend is called. A part of Validate; `routes` are those of the
// draft.
void CheckTunnels(PolicyBuilder& draft, const RouteTable& routes);

// What an approval rule must agree with elsewhere: routes, flows. A part of Validate.
void CheckApproval(PolicyBuilder& draft, std::size_t index);

// Names of MCP tools that two tools of the policy claim alike. A part of Validate.
void CheckMcpNames(PolicyBuilder& draft);
// What a write that is a tool of an MCP server must agree with elsewhere. A part of Validate.
void CheckMcpTool(PolicyBuilder& draft, const RouteTable& routes, std::size_t index);
// A read that would take the place of a write that somebody removes or mistypes.
void WarnAboutCoveredMcpWrite(PolicyBuilder& draft, std::size_t index);

// A segment that no literal of a policy is likely to be: stands for any value.
inline constexpr std::string_view kAnyValue = "~~";
// The path that a request would have, with that for every value.
std::string SamplePath(const RequestTemplate& request);

// Captures that those places name and a pattern of the tool has not; of an MCP tool any place in
// path and query.
void CheckCaptures(PolicyBuilder& draft, std::size_t index, std::string_view word,
                   const std::vector<Selector>& selectors);

// Fields of the call that another request, or a word about its answer, would need and nobody has by
// then. A part of Validate.
void CheckFieldsSent(PolicyBuilder& draft, std::size_t index);

// No place of a tool's `redact` may be stored by another word of it. A part of Validate.
void CheckRedact(PolicyBuilder& draft, std::size_t index);

// Names of backends, tools and flows: letters, digits, '_', '.', '-', at most 128.
bool IsName(std::string_view name);
inline constexpr std::string_view kNameHelp =
    "a name has letters, digits, '_', '-' and '.', at most 128";

// Fields that only the proxy itself writes: framing, routing and hop-by-hop ones.
bool IsReservedHeader(std::string_view name);

// Empty, or why the text is no http or https url of a host. It has no user, query and fragment.
std::string UrlProblem(std::string_view url);
// By its name or address.
bool IsThisHost(const Backend& backend);

}  // namespace recourse
