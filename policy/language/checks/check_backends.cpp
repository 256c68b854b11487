// Backends that have a name or a server in common.
#include <algorithm>
#include <set>

#include "policy/language/policy_builder.h"
#include "policy/model/endpoint.h"
#include "policy/model/route_table.h"
#include "policy/uri/authority.h"

namespace recourse {
namespace {

bool IsOneEndpoint(const Backend& a, const Backend& b) {
  return EndpointPathOf(a, b.endpoint) != EndpointPath::kOther ||
         EndpointPathOf(b, a.endpoint) != EndpointPath::kOther;
}

bool HasSameAddresses(const AddressRules& a, const AddressRules& b) {
  return a.classes == b.classes &&
         std::ranges::equal(a.ranges, b.ranges, [](const AddressRange& x, const AddressRange& y) {
           return x.first == y.first && x.bits == y.bits;
         });
}

// The word in which two backends of one server differ although the server is one; empty: none.
std::string_view DifferingWord(const Backend& a, const Backend& b) {
  if (a.scheme != b.scheme) return "scheme in its url";
  const bool has_same_tls =
      a.tls_ca_file == b.tls_ca_file && a.tls_client_cert == b.tls_client_cert &&
      a.tls_client_key == b.tls_client_key && a.tls_server_name == b.tls_server_name;
  if (!has_same_tls) return "`tls`";
  return HasSameAddresses(a.addresses, b.addresses) ? "" : "`addresses`";
}

class AuthorityChecks {
 public:
  explicit AuthorityChecks(PolicyBuilder& draft) : draft_(draft) {}

  void Add(std::size_t index) {
    const Backend& backend = Of(index);
    if (backend.host.empty()) return;
    std::vector<std::string> names = backend.hosts;
    names.push_back(Bracketed(backend.host) + ':' + std::to_string(backend.port));
    for (const std::string& name : names) {
      std::vector<std::size_t>& owners = owners_[name];
      for (const std::size_t owner : owners) {
        if (owner != index && compared_.emplace(owner, index).second) Compare(owner, index, name);
      }
      owners.push_back(index);
    }
  }

 private:
  const Backend& Of(std::size_t index) const { return draft_.policy.backends[index]; }

  void Error(std::size_t index, std::string message) {
    draft_.problems.Error(draft_.backend_places[index], JoinKey("backends", Of(index).name),
                          std::move(message));
  }

  bool IsIntercepted(std::size_t index) const {
    return std::ranges::find(draft_.intercepted, index) != draft_.intercepted.end();
  }

  void Compare(std::size_t before, std::size_t index, const std::string& name) {
    const Backend& other = Of(before);
    const Backend& backend = Of(index);
    const std::string same = "has the same authority " + name + " as backend " + other.name;
    if (!other.has_endpoint() && !backend.has_endpoint()) {
      Error(index, same +
                       "; the Host field could not tell them apart, and only the endpoints of "
                       "servers of MCP and GraphQL (`protocol`) are told apart by their paths");
      return;
    }
    if (other.has_endpoint() && backend.has_endpoint() && IsOneEndpoint(other, backend)) {
      Error(index, same + ", and its endpoint " + backend.endpoint + " is that one's " +
                       other.endpoint + " or may be taken for it; one endpoint is one backend");
    }
    if (IsIntercepted(before) != IsIntercepted(index)) {
      Error(index, same +
                       ", and only one of them has `intercept: true`; whether TLS is looked "
                       "into is decided before a path is known, so say the same of both");
    }
    if (!IsSameServer(other, backend)) return;
    if (const auto word = DifferingWord(other, backend); !word.empty()) {
      Error(index, "is at the same host and port as backend " + other.name +
                       " and differs in the " + std::string(word) +
                       "; one server is reached in one way, so say the same of both");
    }
  }

  PolicyBuilder& draft_;
  std::map<std::string, std::vector<std::size_t>> owners_;
  std::set<std::pair<std::size_t, std::size_t>> compared_;
};

constexpr std::string_view kSeen =
    "the url is http, so whoever sees the connection sees them; use https";

bool IsSeen(const Backend& backend) { return backend.scheme != "https" && !IsThisHost(backend); }

// One field has one source: what `credentials` set, no request of ours has from the agent.
class CredentialChecks {
 public:
  CredentialChecks(PolicyBuilder& draft, std::size_t index)
      : draft_(draft), index_(index), backend_(BackendOf(draft, index)) {}

  void Run() {
    const Tool& tool = draft_.policy.tools[index_];
    if (tool.settle) Headers("settle", tool.settle->request);
    if (tool.settled_by) Headers("settled_by", tool.settled_by->request);
    if (tool.before) Headers("before", tool.before->request);
    for (const UndoRule* const undo : UndosOf(tool)) {
      Headers("undo", undo->request);
      if (undo->settled_by) Headers("undo", undo->settled_by->request);
      for (const std::string& name : undo->from_call) Refuse("undo", name);
    }
    const RequestPlace& key = KeyRuleOf(tool, backend_).at;
    if (key.is_field()) Refuse("key_at", key.name);
  }

 private:
  static const Backend& BackendOf(const PolicyBuilder& draft, std::size_t index) {
    return draft.policy.backends[draft.policy.tools[index].backend];
  }

  void Headers(std::string_view word, const RequestTemplate& request) {
    for (const auto& [name, text] : request.headers) Refuse(word, name);
  }

  void Refuse(std::string_view word, std::string_view name) {
    const auto has_name = [name](const SecretHeader& secret) {
      return EqualsIgnoreCase(secret.name, name);
    };
    const bool is_backends = std::ranges::any_of(backend_.secrets, has_name);
    if (!is_backends && std::ranges::none_of(draft_.policy.tools[index_].secrets, has_name)) return;
    draft_.problems.Error(draft_.ToolPlace(index_, word), draft_.ToolKey(index_, word),
                          std::string(name) + " is one of the `credentials` of " +
                              (is_backends ? "backend " + backend_.name : "this tool") +
                              ", which every request to it gets; leave it out");
  }

  PolicyBuilder& draft_;
  const std::size_t index_;
  const Backend& backend_;
};

// A path that the pattern matches.
std::string SampleOf(const std::string& pattern) {
  std::string path;
  for (std::size_t at = 0; at < pattern.size();) {
    const bool is_capture = pattern[at] == '{';
    const bool is_rest = pattern.compare(at, std::string::npos, "**") == 0;
    if (!is_capture && !is_rest) {
      path += pattern[at++];
      continue;
    }
    path += kAnyValue;
    at = is_rest ? pattern.size() : std::min(pattern.find('}', at), pattern.size() - 1) + 1;
  }
  return path;
}

}  // namespace

void CheckAuthorities(PolicyBuilder& draft) {
  AuthorityChecks checks(draft);
  for (std::size_t i = 0; i < draft.policy.backends.size(); ++i) checks.Add(i);
}

void CheckBackendCredentials(PolicyBuilder& draft) {
  for (std::size_t i = 0; i < draft.policy.backends.size(); ++i) {
    const Backend& backend = draft.policy.backends[i];
    if (backend.secrets.empty() || !IsSeen(backend)) continue;
    draft.problems.Warn(draft.backend_places[i], JoinKey("backends", backend.name) + ".credentials",
                        std::string(kSeen));
  }
  for (std::size_t i = 0; i < draft.policy.tools.size(); ++i) {
    const Tool& tool = draft.policy.tools[i];
    if (!HasMatch(tool)) continue;
    CredentialChecks(draft, i).Run();
    if (tool.secrets.empty() || !IsSeen(draft.policy.backends[tool.backend])) continue;
    draft.problems.Warn(draft.ToolPlace(i, "credentials"), draft.ToolKey(i, "credentials"),
                        std::string(kSeen));
  }
}

void CheckPathOwners(PolicyBuilder& draft, const RouteTable& routes) {
  for (std::size_t i = 0; i < draft.policy.tools.size(); ++i) {
    const Tool& tool = draft.policy.tools[i];
    if (tool.patterns.empty() || !draft.policy.backends[tool.backend].has_endpoint()) continue;
    const Backend& backend = draft.policy.backends[tool.backend];
    for (const std::string& pattern : tool.patterns) {
      const Backend* const owner = routes.PlaceAtUrl(backend, SampleOf(pattern)).backend;
      if (owner == &backend) continue;
      draft.problems.Error(draft.ToolPlace(i, "match"), draft.ToolKey(i, "match"),
                           pattern + " is not served by " + backend.name +
                               ": beside the endpoints of that server it is " + owner->name +
                               "'s; match METHOD " + owner->name + ' ' + pattern);
    }
  }
}

}  // namespace recourse
