// The policy as immutable values. policy/loader.h makes it from YAML; design 8 says what it means.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/template.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse {

enum class Effect : std::uint8_t { kRead, kWrite };
enum class Mode : std::uint8_t { kEnforce, kObserve };
// What happens to a call that no tool matches. kGuard is for writes only.
enum class UnlistedRule : std::uint8_t { kPass, kGuard, kDeny };
enum class OnMismatch : std::uint8_t { kReject, kReplay, kAsk };
enum class AcrossTraces : std::uint8_t { kIfUnanswered, kNever, kAlways, kAsk };
enum class Repeatable : std::uint8_t { kNo, kYes, kByKey };
enum class BreaksFlow : std::uint8_t { kNever, kOnFailure, kOnUnknown };
enum class OnDeadline : std::uint8_t { kUndo, kKeep, kAsk };

// How far a key reaches (design 4).
struct ScopeRule {
  enum class Kind : std::uint8_t { kTrace, kSession, kCaller, kGlobal, kHeader, kBody, kBaggage };
  Kind kind = Kind::kTrace;
  std::string name;  // kHeader: field name; kBody: JSON pointer; kBaggage: member name
};

struct SettleRule {
  RequestTemplate request;  // GET or HEAD
  Selector happened;  // present in the probe's answer: the effect exists; its value is the ref
  std::optional<Millis> absent_after;  // unset: absence is never proof
};

struct UndoRule {
  RequestTemplate request;
  StatusSet done;  // default: 2xx
  Repeatable repeatable = Repeatable::kNo;
};

struct ApprovalRule {
  std::vector<std::string> by;
  Millis expires{15 * 60'000};
  std::vector<Condition> when;  // all must hold; empty: always
};

struct Backend {
  std::string name;
  std::string scheme;  // http or https
  std::string host;    // lower case, without brackets
  std::uint16_t port = 0;
  std::string base_path;           // "" or "/mcp"; put before every path sent upstream
  std::string authority;           // for the Host field: host[:port], default port left out
  std::vector<std::string> hosts;  // further authorities; without a port: any port
  std::string key_header;          // empty: the backend knows no key
  std::string protocol = "http";   // http or mcp
  bool trust_annotations = false;
  std::optional<Millis> timeout;  // unset: the lane's default
  Millis connect_timeout = limits::kConnectTimeout;
  std::string tls_ca_file, tls_client_cert, tls_client_key;
};

struct Tool {
  std::string name;
  std::size_t backend = 0;            // index into Policy::backends
  std::vector<std::string> methods;   // {"*"}: any
  std::vector<std::string> patterns;  // "/orders/{id}", "/files/**"
  Effect effect = Effect::kWrite;

  // Write tools only.
  ScopeRule scope;
  std::vector<Selector> identity;
  std::vector<std::string> ignore;  // JSON pointers
  Millis dedupe_window = limits::kDedupeWindow;
  AcrossTraces across_traces = AcrossTraces::kIfUnanswered;
  OnMismatch on_mismatch = OnMismatch::kReject;
  std::optional<Selector> external_ref;
  std::optional<SettleRule> settle;
  std::optional<UndoRule> undo;
  std::string reason;  // why there is nothing to undo with
  std::optional<ApprovalRule> approval;
  BreaksFlow breaks_flow = BreaksFlow::kNever;
  bool pivot = false;
  std::vector<Condition> success_when;  // over the answer; all must hold
  StatusSet not_executed;               // statuses that prove the backend did nothing
  Millis failed_ttl = limits::kFailedTtl;
  Millis hold = limits::kHold;    // how long a repeat waits for the running call
  std::optional<Millis> timeout;  // overrides the backend's

  int line = 0;  // where the policy defines it
};

struct Flow {
  std::string name;
  std::vector<std::size_t> tools;
  std::optional<std::size_t> ends_with;
  std::optional<Millis> deadline;
  OnDeadline on_deadline = OnDeadline::kAsk;
};

// One entry of the `tests:` section.
struct PolicyTest {
  std::string method, backend, target;  // target: path and query
  std::string body;                     // JSON text, or empty
  std::vector<std::pair<std::string, std::string>> headers;
  // Expectations; unset means not checked. tool "unlisted": no tool may match.
  std::optional<std::string> tool, effect, refused;
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

  std::string version;  // first 16 hex digits of the SHA-256 of the files
  Mode mode = Mode::kEnforce;
  UnlistedRule unlisted_reads = UnlistedRule::kPass;
  UnlistedRule unlisted_writes = UnlistedRule::kGuard;
  std::vector<Backend> backends;
  std::vector<Tool> tools;
  std::vector<Flow> flows;
  std::vector<PolicyTest> tests;
  std::unique_ptr<const RouteTable> routes;

  const Tool* FindTool(std::string_view name) const;
};

}  // namespace recourse
