// The policy as immutable values. policy/language/loader.h makes it from YAML; policy/README.md
// says what it means.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/callers.h"
#include "policy/model/ledger_rules.h"
#include "policy/model/principal.h"
#include "policy/model/tunnel_rules.h"
#include "policy/template/request_place.h"
#include "policy/template/template.h"
#include "policy/uri/addresses.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"

namespace recourse {

enum class Effect : std::uint8_t { kRead, kWrite };
enum class Mode : std::uint8_t { kEnforce, kObserve };
// How a backend is spoken to. What is no plain HTTP has one endpoint, where the body says what a
// call is.
enum class Protocol : std::uint8_t { kHttp, kMcp, kGraphql };
std::string_view NameOf(Protocol protocol);
// What happens to a call that no tool matches. kGuard is for writes only.
enum class UnlistedRule : std::uint8_t { kPass, kGuard, kDeny };
// Which one says what makes two calls the same where a call has both: the policy's `identity` or
// the agent's Idempotency-Key.
enum class AgentKey : std::uint8_t { kYields, kWins };
enum class Repeatable : std::uint8_t { kNo, kYes, kByKey };
enum class BreaksFlow : std::uint8_t { kNever, kOnFailure, kOnUnknown };
enum class OnDeadline : std::uint8_t { kUndo, kKeep, kAsk };
// What an MCP tool's own failure (`isError`) proves: that it may have had effects all the same, or
// that it had none.
enum class OnError : std::uint8_t { kUnknown, kNotExecuted };
// Whether the client of a write gets the answer as it comes, or whole: by its type (a stream of
// events comes as it comes) unless the policy says so.
enum class AnswerForm : std::uint8_t { kByType, kStream, kWhole };

// How far a key reaches.
struct ScopeRule {
  enum class Kind : std::uint8_t { kTrace, kSession, kCaller, kGlobal, kHeader, kBody, kBaggage };
  Kind kind = Kind::kTrace;
  std::string name;  // kHeader: field name; kBody: JSON pointer; kBaggage: member name
};

// What becomes of a write whose state before it cannot be read.
enum class BeforeMissing : std::uint8_t { kRefuse, kApprove, kGoOn };

// What a write is about to change, read before it is sent.
struct BeforeRule {
  RequestTemplate request;          // GET
  std::vector<Selector> keep;       // places of its answer (kBody); one at least
  std::optional<Selector> version;  // of its answer (kBody, kHeader): differs after every change
  BeforeMissing missing = BeforeMissing::kRefuse;
};

// Where a backend takes the key of a write, and what it promises of it.
struct KeyRule {
  RequestPlace at;  // nowhere: it knows no key
  KeyForm form;
  Millis lives = limits::kKeyLives;  // how long it is honoured, from the first attempt on
  bool is_accounts = false;          // `key_scope: account`: whatever credentials name it
  // Over the answer to what was sent again under its key: one that holds proves that the first one
  // had its effect.
  std::vector<Condition> hit;
  bool answers_latest = false;     // what comes again is answered by how things stand by then
  bool new_after_failure = false;  // what failed can succeed only under another key
};

// Which element of a list in a probe's answer is what the write made.
struct SearchRule {
  struct Test {
    std::string pointer;  // into the element
    RequestTemplate::Text value;
    std::string text;  // as written
  };
  std::vector<Test> where;  // all must be equal
  std::string take;         // pointer to the effect's name in the element
  int pages = 1;
  std::optional<Selector> next;  // of the answer: the link to the next page, or a cursor
  RequestPlace cursor;           // where it goes then; nowhere: `next` is a link
};

// A write that its backend has taken on and not done: what says that it is.
struct SettledByRule {
  RequestTemplate request;       // a read, of the call and its answer
  std::vector<Condition> until;  // over that request's answer: all hold once the write is done
  Millis deadline{10LL * 60'000};
  bool at_its_path = false;  // of an undo: asked where that was sent
  // Asked where the answer's link leads, which must be to its own backend: the url of that, without
  // and with the path that it begins with.
  std::optional<Selector> at{};
  std::string root{}, base_path{};
};

struct SettleRule {
  // GET or HEAD, or what the policy calls safe; of MCP a tools/call of a read.
  RequestTemplate request;
  // Present in the probe's answer: the effect exists; its value is the ref. With `search`: the
  // list.
  Selector happened;
  std::optional<Millis> absent_after;  // unset: absence is never proof
  std::vector<Condition> absent{};     // over that answer: one that holds states that there is none
  std::optional<SearchRule> search{};
  // `request: before`: it asks what `before` asks, and is compared with what that has read. Then
  // `reached`, over its answer, has what all holds once the write is done; empty (as_set): what the
  // call sets stands there.
  bool asks_before = false;
  std::vector<Condition> reached{};
  RequestPlace mark{};  // of the write: where the key is written that the probe asks by
};

struct TokenRule;

// A header field of a request, whose value is read from a mounted file when it is sent.
struct SecretHeader {
  std::string name;
  std::string file;
  std::string prefix{};  // "Bearer "
  // In place of the file; of a backend's credentials only.
  std::shared_ptr<TokenRule> token{};
};

struct UndoRule {
  std::vector<Condition> when;  // it is the one to send: all must hold; empty: always
  RequestTemplate request;
  StatusSet done;                  // default: 2xx
  std::vector<Condition> done_if;  // over the answer, whatever its status; one that holds: done too
  std::vector<Condition> done_when;  // over the answer; one must hold. Empty: the status tells
  bool then_probe = false;           // done once the settle request states that nothing is there
  Repeatable repeatable = Repeatable::kNo;
  std::optional<KeyRule> key;       // of the request itself; unset: the backend's, in a field
  bool only_if_unchanged = false;   // what the write left, by `before`, is there still
  std::vector<std::string> leaves;  // pointers into the call's body: what need not be put back
  bool rest_stays = false;          // a PUT: what it does not name stays as it is
  std::optional<SettledByRule> settled_by;  // until then what the backend has taken on is running
  std::vector<SecretHeader> secrets;
  std::vector<std::string>
      from_call;  // header fields of the agent's call, kept sealed with the undo
  int attempts_max = limits::kUndoAttemptsMax;
  // How long after its success an operator may still have the step of a finished flow undone.
  std::optional<Millis> window;
};

// What an agent is told once it was held for long enough.
enum class ApprovalAnswer : std::uint8_t { kAccepted, kConflict };  // 202, 409

struct ApprovalRule {
  std::vector<std::string> by;  // groups, or persons by name
  int needs = 1;                // so many of them
  Millis expires = limits::kApprovalExpires;
  std::vector<Condition> when;  // all must hold; empty: always
  // Asks for no call but one that looks like a repeat: see `on_mismatch` and `across_traces`.
  bool only_suspected = false;
  ApprovalAnswer answer = ApprovalAnswer::kAccepted;
  std::optional<Millis> hold;         // unset: the tool's
  std::optional<bool> should_retry;   // of a 409: told to the SDKs that look for it
  std::vector<SecretHeader> secrets;  // in place of such fields of the agent's call
  RequestTemplate::Text summary;      // what calls are told apart by; empty: their first values
  std::string summary_text;           // as written
};

class TlsClient;  // proxy/net/tls/tls_client.h

// Undo requests of tools that do not say in their path what they take back, where an agent may make
// them by itself.
struct UndoesByBody {
  bool may_be = false;
  std::vector<std::string> names;  // of the members that say it
};

struct Backend {
  std::string name;
  std::string scheme;  // http or https
  std::string host;    // lower case, without brackets
  std::uint16_t port = 0;
  std::string base_path;             // "" or "/api"; put before every path sent upstream
  std::string authority;             // for the Host field: host[:port], default port left out
  std::vector<std::string> hosts;    // further authorities; without a port: any port
  KeyRule key;                       // of the writes whose tool has none of its own
  std::vector<Condition> repeat_if;  // over a failure: one that holds says "make it again"
  bool keeps_escaped_slash = false;  // it takes %2F for a part of its segment
  bool write_reuse = false;          // a write may go on a connection that carried one just before
  Protocol protocol = Protocol::kHttp;
  std::string endpoint;  // unless it is HTTP: the url's path, for agents too; "/" at least
  // GraphQL: documents by the hash or the id that stands for them.
  std::map<std::string, std::string, std::less<>> persisted;
  UndoesByBody undoes;             // that its unlisted writes may be
  bool trust_annotations = false;  // MCP: believe what the server says about its tools
  bool trust_effects = false;      // MCP: `import` puts in force what it declares of them
  std::optional<Millis> timeout;   // unset: the lane's default
  Millis connect_timeout = limits::kConnectTimeout;
  AddressRules addresses;  // that the host may lead to, checked at every connection
  // In every request, in place of such fields of the agent's; no answer shows them.
  std::vector<SecretHeader> secrets;
  // Those of its tools, their undos and approvals: its answers show none of these, either.
  std::vector<SecretHeader> hidden;
  std::string tls_ca_file, tls_client_cert, tls_client_key;
  std::string tls_server_name;  // empty: host
  // Made from the words above before the policy is run (TlsClients); null for http. A copy of the
  // backend keeps it, whatever becomes of the policy.
  std::shared_ptr<TlsClient> tls;

  bool is_mcp() const { return protocol == Protocol::kMcp; }
  bool is_graphql() const { return protocol == Protocol::kGraphql; }
  bool has_endpoint() const { return protocol != Protocol::kHttp; }
};

// A token that an endpoint gives for client credentials (RFC 6749 4.4).
struct TokenRule {
  Backend backend;  // of its url
  std::string client_id, secret_file, scope, audience;
};

// A tool whose writes end what an answer of another one says (`superseded_by`).
struct EndingTool {
  std::string name;
  // What its paths capture: the values must be the same where both capture them all. Empty: any
  // of its writes ends it.
  std::vector<std::string> captures;
};

// Another door to what another tool does (`same_as`): a call through it has that tool's key.
struct SameAsRule {
  std::string tool;
  std::vector<Condition> when;     // over the call: all must hold; empty: always
  std::vector<Selector> identity;  // where this door has what that tool's `identity` names
  // Of that tool, once all are read.
  std::vector<Selector> named{};
  std::string called{};  // its name at its server; empty: it has a path
  // Its one path, where its identity has all that the path captures: there a call through this
  // door writes. Empty: that is not known.
  std::string backend{}, method{}, pattern{};
};

struct Tool {
  std::string name;
  std::size_t backend = 0;            // index into Policy::backends
  std::vector<std::string> methods;   // {"*"}: any
  std::vector<std::string> patterns;  // "/orders/{id}", "/files/**"
  // Of an MCP server's tools, in place of methods and patterns: names, and globs such as "read_*".
  std::vector<std::string> mcp_names;
  // Of a GraphQL server's: fields of its mutations.
  std::vector<std::string> mutations;
  Effect effect = Effect::kWrite;

  // In every request for it, in place of such fields of the agent's and of its backend's
  // `credentials`; no answer shows them.
  std::vector<SecretHeader> secrets;

  // It is called by its name, and has no path of its own.
  bool is_named() const { return !mcp_names.empty() || !mutations.empty(); }

  // MCP: digest of what its server declared of it when that was taken over; empty: it was not.
  std::string declared;

  // Read tools only: protocols that a GET may switch to, in lower case.
  std::vector<std::string> upgrades;

  // Write tools only.
  ScopeRule scope;
  std::vector<Selector> identity;
  bool says_all = false;            // `identity: all`: the key is that of a tool without
  std::vector<SameAsRule> same_as;  // the first whose `when` holds
  std::optional<KeyRule> key;       // in place of the backend's
  AgentKey agent_key = AgentKey::kYields;
  std::vector<std::string> ignore;  // JSON pointers
  bool trace_required = false;      // no fall-back to the caller's scope
  Millis dedupe_window = limits::kDedupeWindow;
  AcrossTraces across_traces = AcrossTraces::kIfUnanswered;
  Millis across_window = limits::kAcrossWindow;
  OnMismatch on_mismatch = OnMismatch::kReject;
  std::vector<EndingTool> superseded_by;  // beside what ends every answer (ledger/standing.h)
  bool superseded_by_others = false;      // any other write on its resource does
  bool supersedes_others = false;         // another tool names it there
  UndoesByBody undoes;                    // that its calls may be
  std::optional<Selector> external_ref;
  std::optional<SettleRule> settle;
  std::optional<SettledByRule> settled_by;
  std::optional<BeforeRule> before;
  std::optional<UndoRule> undo;
  std::vector<UndoRule> other_undos;  // in the order in which they are looked at, after `undo`
  std::string reason;                 // why there is nothing to undo with
  std::vector<Condition> deny;        // over the call: one that holds has it refused
  std::vector<Condition> allow;       // unless all of these hold it is refused
  std::optional<ApprovalRule> approval;
  BreaksFlow breaks_flow = BreaksFlow::kNever;
  bool pivot = false;
  std::vector<Condition> success_when;   // over the answer; all must hold
  std::vector<Condition> failed_when;    // one that holds: a 2xx, or no effect, is a refusal
  StatusSet not_executed;                // statuses that prove the backend did nothing
  std::vector<Condition> repeat_if;      // as the backend's
  std::vector<Condition> happened_if;    // over a failure: its effect may be there; settle tells
  OnError on_error = OnError::kUnknown;  // MCP only
  AnswerForm answer = AnswerForm::kByType;
  std::vector<std::string> keep_headers;  // kept beside the standard ones, with the policy's own
  std::vector<Selector> redact;           // values there never reach the ledger
  Millis failed_ttl = limits::kFailedTtl;
  Millis hold = limits::kHold;    // how long a repeat waits for the running call
  std::optional<Millis> timeout;  // overrides the backend's

  int line = 0;  // where the policy defines it
};

// The tool that a call of `tool` is a repeat of, or may be; nullptr: its own.
const SameAsRule* DoorOf(const Tool& tool, const CallValues& call);

// What the backend promises of the keys of that tool's writes. Of unlisted ones, of which nobody
// knows what they look like, only a field holds.
const KeyRule& KeyRuleOf(const Tool& tool, const Backend& backend);

// The same of the request that undoes it; `rule` may be null.
const KeyRule& KeyRuleOfUndo(const UndoRule* rule, const Backend& backend);

// What requests for the tool, which may be null, carry for credentials: its own and, of other
// fields, its backend's.
bool HasSecrets(const Backend& backend, const Tool* tool);
std::vector<SecretHeader> SecretsOf(const Backend& backend, const Tool* tool);

// The backend as it is to be called for the tool: with those. `room` has it where it is no other.
const Backend& CalledFor(const Tool* tool, const Backend& backend, std::optional<Backend>& room);

// All undo rules of the tool, in the order in which they are looked at.
std::vector<const UndoRule*> UndosOf(const Tool& tool);

struct Flow {
  std::string name;
  std::vector<std::size_t> tools;
  std::optional<std::size_t> ends_with;
  std::optional<std::size_t> canceled_by;
  std::optional<Millis> deadline;
  OnDeadline on_deadline = OnDeadline::kAsk;
  bool undo_before_pivot = false;  // go on past a step with `pivot`
  bool continue_on_stuck = false;  // undo the other steps although one cannot be undone
  bool irreversible_asks = false;  // each tool of it that nothing takes back asks a human first
};

// What the flow is of a write that came without a trace.
struct WithoutTrace {
  // kNone: one of this one write. kPlace: the one that a session or a field names. kPod: one for
  // all of them, for as long as this pod lives.
  enum class Kind : std::uint8_t { kNone, kPlace, kPod };
  Kind kind = Kind::kNone;
  ScopeRule place;  // kPlace
};

// What holds for every flow.
struct FlowRules {
  // Where the name of a call's flow is, first one first; without any of them it is the trace. Lets
  // nested traces share the flow of their parent.
  std::vector<ScopeRule> parent;
  WithoutTrace without_trace;
  bool agent_may_close = false, agent_may_cancel = false;  // Recourse-Flow: close, cancel
  int undos_per_second = limits::kUndosPerSecond;          // to one backend
  struct Webhook {
    // The members alone, those in a CloudEvent of structured mode, or Slack's own form.
    enum class Format : std::uint8_t { kJson, kCloudEvents, kSlack };
    Backend backend;          // of its url
    std::string secret_file;  // its first line signs what is told; empty: unsigned, as Slack has it
    Format format = Format::kJson;
  };
  std::optional<Webhook> webhook;  // told of what needs a human
};

// One entry of the `tests:` section.
struct PolicyTest {
  // target: path and query. Of method "tools/call": the name of an MCP tool; `body` its arguments.
  std::string method, backend, target;
  std::string body;  // JSON text, or empty
  std::vector<std::pair<std::string, std::string>> headers;
  // Expectations; unset means not checked. tool "unlisted": no tool may match.
  std::optional<std::string> tool, effect, refused;
  std::optional<bool> approval;        // whether it needs a human
  std::vector<std::string> key_parts;  // names of the parts that must enter the key
  int line = 0;
};

struct RouteMatch;
class RouteTable;

class Policy {
 public:
  Policy();
  ~Policy();
  Policy(Policy&&) noexcept;

  Digest digest{};      // SHA-256 of the files
  std::string version;  // its first 16 hex digits
  Mode mode = Mode::kEnforce;
  UnlistedRule unlisted_reads = UnlistedRule::kPass;
  UnlistedRule unlisted_writes = UnlistedRule::kGuard;
  LedgerRule ledger;
  LedgerPlace ledger_place;
  Quotas quotas;
  TunnelRules tunnels;
  PrincipalRule principal;
  CallersRule callers;
  std::vector<Backend> backends;
  std::vector<Tool> tools;
  std::vector<Flow> flows;
  FlowRules flow_rules;
  std::vector<PolicyTest> tests;
  std::vector<std::string> fields_read;  // FieldsOfWords of the above
  std::unique_ptr<const RouteTable> routes;

  const Tool* FindTool(std::string_view name) const;
  // Whether both are doors to what one tool does, and so have operations in common.
  bool AreDoors(const Tool& tool, std::string_view other) const;
  // The flow that the tool is named in; nullptr: none. A tool is named in one flow at most.
  const Flow* FlowOf(const Tool& tool) const;
  const Flow* FindFlow(std::string_view name) const;
};

}  // namespace recourse
