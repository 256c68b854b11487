#include <algorithm>
#include <utility>

#include "policy/graphql/document.h"
#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/language/tls_files.h"
#include "policy/model/url.h"
#include "policy/uri/authority.h"
#include "policy/uri/path.h"

namespace recourse {
namespace {

constexpr std::string_view kUrlHelp =
    "accepted: http://host[:port][/path] or https://host[:port][/path], with a port of at most "
    "65535";
constexpr std::string_view kHostHelp = "accepted: host or host:port";

// Returns why the url is refused, or empty.
std::string_view ParseUrl(std::string_view url, Backend& backend) {
  const auto colon = url.find("://");
  if (colon == std::string_view::npos) return kUrlHelp;
  backend.scheme = url.substr(0, colon);
  if (backend.scheme != "http" && backend.scheme != "https") return kUrlHelp;
  std::string_view rest = url.substr(colon + 3);
  if (rest.find('@') != std::string_view::npos) {
    return "a url carries no user or password: this file is no place for secrets";
  }
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return "a url has no query and no fragment here";
  }
  const auto slash = std::min(rest.find('/'), rest.size());
  const auto authority = ParseAuthority(rest.substr(0, slash));
  if (!authority) return kUrlHelp;
  const std::uint16_t default_port = backend.scheme == "https" ? 443 : 80;
  backend.host = authority->host;
  backend.port = authority->port == 0 ? default_port : authority->port;
  backend.authority = Bracketed(backend.host);
  if (backend.port != default_port) backend.authority += ':' + std::to_string(backend.port);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.empty()) return {};
  std::string scratch;
  const auto canonical = CanonicalPath(path, scratch);
  if (!canonical) return canonical.error().detail();
  backend.base_path = *canonical;
  return {};
}

void ReadHosts(MapReader& map, Backend& backend) {
  for (const LocatedText& entry : map.Texts("hosts")) {
    const auto authority = ParseAuthority(entry.text);
    if (!authority) {
      map.problems().Error(entry.place, entry.key, std::string(kHostHelp));
      continue;
    }
    std::string host = Bracketed(authority->host);
    if (authority->port != 0) host += ':' + std::to_string(authority->port);
    backend.hosts.push_back(std::move(host));
  }
}

void CheckTlsFiles(MapReader& tls, const Backend& backend) {
  const auto check = [&tls](std::string_view word, const std::string& problem) {
    if (!problem.empty()) tls.problems().Error(tls.PlaceOf(word), tls.KeyOf(word), problem);
    return problem.empty();
  };
  if (!backend.tls_ca_file.empty()) check("ca_file", CertificateFileProblem(backend.tls_ca_file));
  if (backend.tls_client_cert.empty() || backend.tls_client_key.empty()) return;
  if (check("client_cert", CertificateFileProblem(backend.tls_client_cert))) {
    check("client_key", KeyFileProblem(backend.tls_client_key, backend.tls_client_cert));
  }
}

void ReadTls(MapReader& map, TlsFiles files, Backend& backend) {
  const YamlNode* node = map.Get("tls");
  if (node == nullptr) return;
  MapReader tls(*node, map.KeyOf("tls"), map.problems());
  backend.tls_ca_file = tls.Text("ca_file").value_or("");
  backend.tls_client_cert = tls.Text("client_cert").value_or("");
  backend.tls_client_key = tls.Text("client_key").value_or("");
  backend.tls_server_name = ToLower(tls.Text("server_name").value_or(""));
  if (tls.Has("server_name") && !IsHostName(backend.tls_server_name)) {
    map.problems().Error(tls.PlaceOf("server_name"), tls.KeyOf("server_name"),
                         "accepted: the host name that the backend's certificate has");
  }
  tls.Finish();
  if (files == TlsFiles::kCheck) CheckTlsFiles(tls, backend);
  if (backend.scheme == "http") {
    map.problems().Error(node->place, tls.key(), "the url is http; use https or drop tls");
  }
  if (tls.Has("client_cert") != tls.Has("client_key")) {
    map.problems().Error(node->place, tls.key(), "client_cert and client_key go together");
  }
}

// What the url itself names is meant; a name is held to the rules whenever it is looked up.
void AllowWhatTheUrlNames(Backend& backend) {
  if (backend.host == "localhost") backend.addresses.classes.push_back(AddressClass::kLoopback);
  const auto literal = ParseIpAddress(backend.host);
  if (literal && ClassOf(*literal) == AddressClass::kLoopback) {
    backend.addresses.ranges.push_back({*literal, 128});
  }
}

void ReadAddresses(MapReader& map, Backend& backend) {
  static constexpr std::pair<std::string_view, AddressClass> kWords[] = {
      {"public", AddressClass::kPublic},
      {"private", AddressClass::kPrivate},
      {"loopback", AddressClass::kLoopback},
      {"link_local", AddressClass::kLinkLocal}};
  AddressRules rules;
  if (map.Has("addresses")) rules.classes.clear();
  for (const LocatedText& entry : map.Texts("addresses")) {
    const auto* const word =
        std::find_if(std::begin(kWords), std::end(kWords),
                     [&](const auto& known) { return known.first == entry.text; });
    if (word != std::end(kWords)) {
      rules.classes.push_back(word->second);
    } else if (const auto range = ParseAddressRange(entry.text)) {
      rules.ranges.push_back(*range);
    } else {
      map.problems().Error(
          entry.place, entry.key,
          "accepted: public, private, loopback, link_local, an address, or a range "
          "such as 10.0.0.0/8 without bits after its prefix");
    }
  }
  backend.addresses = std::move(rules);
  AllowWhatTheUrlNames(backend);
  const auto literal = ParseIpAddress(backend.host);
  if (literal && !backend.addresses.Allow(*literal)) {
    map.problems().Error(map.PlaceOf("url"), map.KeyOf("url"),
                         backend.host + " is " + std::string(NameOf(ClassOf(*literal))) +
                             ", which is refused as a backend unless its `addresses` list it; "
                             "unspecified, multicast and reserved ones always are");
  }
}

bool ReadIntercept(MapReader& map, const Backend& backend) {
  const bool is_wanted = map.Bool("intercept").value_or(false);
  if (is_wanted && backend.scheme == "http") {
    map.problems().Error(map.PlaceOf("intercept"), map.KeyOf("intercept"),
                         "only calls to an https backend are intercepted: what an agent sends over "
                         "TLS must not go on without it");
  }
  return is_wanted;
}

// A write that breaks off on a kept connection is of unknown outcome. What de-duplicates takes the
// repeat that settles it.
void ReadWriteReuse(MapReader& map, Backend& backend) {
  backend.write_reuse = map.Bool("write_reuse").value_or(backend.key.at.is_field());
}

// Stored documents that agents may name in place of a document.
void ReadPersisted(MapReader& map, Backend& backend) {
  const YamlNode* const node = map.Get("persisted");
  if (node == nullptr) return;
  const std::string key = map.KeyOf("persisted");
  if (!backend.is_graphql() || node->kind != YamlNode::Kind::kMap) {
    map.problems().Error(node->place, key,
                         backend.is_graphql()
                             ? "a map of hashes or ids to GraphQL documents is accepted here"
                             : "only a backend with `protocol: graphql` has stored documents");
    return;
  }
  for (const auto& member : node->members) {
    const std::string member_key = JoinKey(key, member.name);
    const auto text = ReadText(member.value, member_key, map.problems());
    if (!text) continue;
    if (const auto document = ParseGraphql(*text); !document) {
      map.problems().Error(member.value.place, member_key, document.error().Text());
    }
    backend.persisted.emplace(member.name, *text);
  }
}

Backend ReadBackend(MapReader& map, TlsFiles files) {
  static constexpr std::pair<std::string_view, Protocol> kProtocols[] = {
      {"http", Protocol::kHttp}, {"mcp", Protocol::kMcp}, {"graphql", Protocol::kGraphql}};
  static constexpr std::pair<std::string_view, bool> kEscapedSlash[] = {{"doubtful", false},
                                                                        {"kept", true}};
  Backend backend;
  bool ends_with_slash = false;
  if (const YamlNode* url = map.Need("url", kUrlHelp)) {
    const auto text = ReadText(*url, map.KeyOf("url"), map.problems());
    ends_with_slash = text && text->ends_with('/');
    const auto problem = text ? ParseUrl(*text, backend) : std::string_view();
    if (!problem.empty()) {
      map.problems().Error(url->place, map.KeyOf("url"), std::string(problem));
    }
  }
  ReadAddresses(map, backend);
  ReadHosts(map, backend);
  backend.repeat_if = ReadConditions(map, "repeat_if", Reads::kAnswer);
  backend.keeps_escaped_slash = map.OneOf("escaped_slash", kEscapedSlash).value_or(false);
  backend.protocol = map.OneOf("protocol", kProtocols).value_or(Protocol::kHttp);
  backend.key = ReadBackendKey(
      map, backend.is_graphql() || map.problems().IsMisspelled(map.KeyOf("protocol")));
  if (backend.has_endpoint()) {
    // The url is the server's one endpoint, for agents too; many have it with a slash at its end.
    backend.endpoint = std::exchange(backend.base_path, {});
    if (backend.endpoint.empty() || ends_with_slash) backend.endpoint += '/';
  }
  ReadPersisted(map, backend);
  ReadWriteReuse(map, backend);
  backend.trust_annotations = map.Bool("trust_annotations").value_or(false);
  if (backend.trust_annotations && !backend.is_mcp()) {
    map.problems().Error(map.PlaceOf("trust_annotations"), map.KeyOf("trust_annotations"),
                         "only a backend with `protocol: mcp` has annotations");
  }
  backend.trust_effects = map.Bool("trust_effects").value_or(false);
  if (backend.trust_effects && !backend.is_mcp()) {
    map.problems().Error(map.PlaceOf("trust_effects"), map.KeyOf("trust_effects"),
                         "only a backend with `protocol: mcp` declares effects of its tools");
  }
  backend.timeout = map.Duration("timeout", Millis(1));
  backend.connect_timeout =
      map.Duration("connect_timeout", Millis(1)).value_or(backend.connect_timeout);
  ReadTls(map, files, backend);
  backend.secrets = ReadCredentials(map, files, Sources::kFilesAndTokens,
                                    "; without it agents' own credentials go on");
  return backend;
}

}  // namespace

bool IsThisHost(const Backend& backend) {
  const auto literal = ParseIpAddress(backend.host);
  return backend.host == "localhost" || (literal && ClassOf(*literal) == AddressClass::kLoopback);
}

std::string UrlProblem(std::string_view url) {
  Backend parsed;
  return std::string(ParseUrl(url, parsed));
}

std::optional<Backend> BackendFromUrl(std::string_view url) {
  Backend backend;
  if (!ParseUrl(url, backend).empty()) return std::nullopt;
  AllowWhatTheUrlNames(backend);
  return backend;
}

void LoadBackends(const YamlNode& section, PolicyBuilder& draft) {
  if (section.kind != YamlNode::Kind::kMap) {
    draft.problems.Error(section.place, "backends", "a map of names to backends is accepted here");
    return;
  }
  for (const auto& member : section.members) {
    const std::string key = JoinKey("backends", member.name);
    if (!IsName(member.name)) {
      draft.problems.Error(member.name_place, key, std::string(kNameHelp));
    }
    MapReader map(member.value, key, draft.problems);
    Backend backend = ReadBackend(map, draft.tls_files);
    const bool is_intercepted = ReadIntercept(map, backend);
    map.Finish();
    backend.name = member.name;
    const bool is_new = draft.backends.emplace(member.name, draft.policy.backends.size()).second;
    if (!is_new) {
      draft.problems.Error(member.name_place, key, "this backend is defined in another file too");
      continue;
    }
    if (is_intercepted) draft.intercepted.push_back(draft.policy.backends.size());
    draft.policy.backends.push_back(std::move(backend));
    draft.backend_places.push_back(member.name_place);
  }
}

}  // namespace recourse
