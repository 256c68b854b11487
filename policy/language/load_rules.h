// The words of a write tool that are maps of their own.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/language/config_reader.h"
#include "policy/language/loader.h"
#include "policy/model/policy.h"

namespace recourse {

// Where a selector may read from, at a given word of the policy.
enum class Reads { kRequest, kAnswer, kRequestOrAnswer, kAlsoBefore };

// nullopt: a problem was added.
std::optional<Selector> ReadSelector(const LocatedText& text, Reads reads, Problems& problems);
// nullopt: a problem was added.
std::optional<Condition> ReadCondition(const LocatedText& text, Reads reads, Problems& problems);
// A condition or a list of them under `name`.
std::vector<Condition> ReadConditions(MapReader& map, std::string_view name, Reads reads);
// A list of statuses under `name`; empty when it is absent.
StatusSet ReadStatuses(MapReader& map, std::string_view name);

struct PolicyBuilder;
// `match`: the tool's backend, with methods and patterns, or names of MCP tools.
void ReadMatch(MapReader& map, PolicyBuilder& draft, Tool& tool);

// What a tool's own requests are sent to, as its `match` says.
struct Speaks {
  // kNotKnown: no good `match`.
  enum class Kind { kHttp, kMcp, kGraphql, kNotKnown } kind = Kind::kNotKnown;
  std::string endpoint{};  // unless it is HTTP
};

// `request` with its `headers`, of MCP `call` with its `arguments`, or of GraphQL a document with
// its `variables`. nullopt: a problem was added, which quotes `help` when all are absent.
std::optional<RequestTemplate> ReadOwnRequest(MapReader& map, const Speaks& speaks, Effect effect,
                                              std::string_view help);
// The header fields of a request of our own, from the member `headers`.
void ReadRequestHeaders(MapReader& map, RequestTemplate& request);
// `call` and `arguments` as the tools/call that is POSTed to `endpoint`.
std::optional<RequestTemplate> ReadMcpCall(MapReader& map, const std::string& endpoint);
// `graphql`, a document of one field, and `variables` as the request that is POSTed to `endpoint`.
std::optional<RequestTemplate> ReadGraphqlOwn(MapReader& map, const std::string& endpoint,
                                              Effect effect);
// `json` or `form` of a request that is no call of an MCP tool.
void ReadRequestBody(MapReader& map, RequestTemplate& request);
// `before`: the tool's own, for one that asks what that asks.
std::optional<SettleRule> ReadSettle(MapReader& tool, const Speaks& speaks,
                                     const std::optional<BeforeRule>& before);
// `settle: none`: nothing can ask, and whoever wrote it knows.
bool SaysNone(const YamlNode& settle);
// Conditions that tell of a twin: texts, or { when: TEXT, then: settle }.
std::vector<Condition> ReadHappenedIf(MapReader& tool);
std::optional<SettledByRule> ReadSettledBy(MapReader& tool, const Speaks& speaks);
// That of an undo, which may ask by a bare GET where that was sent.
std::optional<SettledByRule> ReadUndoSettledBy(MapReader& undo, const Speaks& speaks);
std::optional<BeforeRule> ReadBefore(MapReader& tool, const Speaks& speaks);
// Words in the place of an undo: there is none, and why (`reason`); nobody has decided yet.
inline constexpr std::string_view kNoUndo = "none", kUndecidedUndo = "undecided";
// `files`: whether those of `credentials` are read, here and below. `undo: none` gives none
// without a problem.
std::vector<UndoRule> ReadUndo(MapReader& tool, const Speaks& speaks, TlsFiles files);
// The key of writes to a backend, with `key_header`. `has_variables`, here and below: it may speak
// GraphQL.
KeyRule ReadBackendKey(MapReader& backend, bool has_variables);
// What a tool says of it otherwise than `base`, its backend's; nullopt: nothing.
std::optional<KeyRule> ReadKeyRule(MapReader& tool, const KeyRule& base, bool has_variables);
// That of an undo request itself; nullopt: nothing is said of it.
std::optional<KeyRule> ReadUndoKey(MapReader& undo, bool has_variables);
// The tools that it is a door to; their names are looked up when all are read.
std::vector<SameAsRule> ReadSameAs(MapReader& tool);
// "trace", "header:X-Run", "body#/run", ...; nullopt: none of them.
std::optional<ScopeRule> ParseScope(std::string_view text);
// A whole number up to `most` under `name`.
std::optional<int> ReadCountUpTo(MapReader& map, std::string_view name, int most);
std::optional<ApprovalRule> ReadApproval(MapReader& tool, TlsFiles files,
                                         std::vector<LocatedText>& approvers);
// Where the values of secret fields may come from.
enum class Sources : std::uint8_t { kFiles, kFilesAndTokens };
// The members of a map of fields, { Authorization: { file, prefix } }, which stands at `key`.
std::vector<SecretHeader> ReadSecretHeaders(const YamlNode& fields, const std::string& key,
                                            TlsFiles files, Sources sources, Problems& problems);
// Those at `credentials`. `without` says what becomes of calls without it.
std::vector<SecretHeader> ReadCredentials(MapReader& map, TlsFiles files, Sources sources,
                                          std::string_view without);

// Fields of answers that are kept beside the standard ones, under `keep_headers`.
std::vector<std::string> ReadKeepHeaders(MapReader& map);
// Places whose values never reach the ledger, under `redact`.
std::vector<Selector> ReadRedact(MapReader& tool);

}  // namespace recourse
