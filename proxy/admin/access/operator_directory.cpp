#include "proxy/admin/access/operator_directory.h"

#include <openssl/crypto.h>

#include <set>

#include "policy/language/config_reader.h"
#include "policy/language/tls_files.h"
#include "policy/model/url.h"
#include "proxy/admin/access/key_source.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kNameHelp =
    "a name is 1 to 256 printable ASCII characters without quotes and backslashes";

void CheckName(const LocatedText& name, Problems& problems) {
  if (!IsOperatorName(name.text)) problems.Error(name.place, name.key, std::string(kNameHelp));
}

std::vector<std::string> ReadGroups(MapReader& map, std::string_view word) {
  std::vector<std::string> groups;
  for (LocatedText& group : map.Texts(word)) {
    CheckName(group, map.problems());
    groups.push_back(std::move(group.text));
  }
  if (groups.size() > limits::kOperatorGroupsMax) {
    map.problems().Error(map.PlaceOf(word), map.KeyOf(word), "has more than 512 groups");
  }
  return groups;
}

Roles ReadRoles(MapReader& map, std::string_view word) {
  Roles roles;
  for (const LocatedText& text : map.Texts(word)) {
    const auto known = std::find_if(kRoleNames.begin(), kRoleNames.end(),
                                    [&](const auto& role) { return role.first == text.text; });
    if (known != kRoleNames.end()) {
      roles.Add(known->second);
      continue;
    }
    map.problems().Error(
        text.place, text.key,
        "'" + text.text + "' is not one of the roles; accepted: read, approve, repair, settle");
  }
  return roles;
}

void ReadToken(const YamlNode& node, const std::string& key, OperatorDirectory& book,
               std::set<Digest>& seen, Problems& problems) {
  MapReader map(node, key, problems);
  OperatorDirectory::Token token;
  (void)map.Need("name", "a token belongs to one person");
  (void)map.Need("sha256", "print a token with its line: recourse operators token NAME");
  token.name = map.Text("name").value_or("");
  const auto hex = map.Text("sha256");
  token.groups = ReadGroups(map, "groups");
  token.roles = ReadRoles(map, "roles");
  map.Finish();
  if (map.Has("name") && !IsOperatorName(token.name)) {
    problems.Error(map.PlaceOf("name"), map.KeyOf("name"), std::string(kNameHelp));
  }
  if (token.name == kSharedOperator) {
    problems.Error(map.PlaceOf("name"), map.KeyOf("name"),
                   "'admin' is whoever holds the token of --admin-token-file; name a person");
  }
  const auto digest = hex ? DigestFromHex(*hex) : std::nullopt;
  if (hex && !digest) {
    problems.Error(map.PlaceOf("sha256"), map.KeyOf("sha256"),
                   "is not the SHA-256 of a token: 64 hexadecimal digits, as `recourse operators "
                   "token NAME` prints them");
  }
  if (!digest) return;
  token.sha256 = *digest;
  if (!seen.insert(*digest).second) {
    problems.Error(map.PlaceOf("sha256"), map.KeyOf("sha256"),
                   "this token is listed already; each person has a token of their own");
  }
  book.tokens.push_back(std::move(token));
}

void ReadTokens(const YamlNode& list, OperatorDirectory& book, Problems& problems) {
  if (list.kind != YamlNode::Kind::kList) {
    problems.Error(list.place, "tokens", "a list of { name, sha256, groups, roles } is accepted");
    return;
  }
  if (list.items.size() > limits::kOperatorTokensMax) {
    problems.Error(list.place, "tokens", "more than 1000 tokens; use jwt for so many people");
    return;
  }
  std::set<Digest> seen;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    ReadToken(list.items[i], "tokens[" + std::to_string(i) + "]", book, seen, problems);
  }
}

void ReadJwksFile(MapReader& map, const std::string& file, OperatorDirectory& book,
                  const ReadNamedFile& read) {
  const auto text = read(file);
  auto keys = text ? ParseJwks(*text) : std::unexpected(text.error());
  if (keys) {
    book.jwt_keys = MakeFileKeys(std::move(*keys));
  } else {
    map.problems().Error(map.PlaceOf("jwks_file"), map.KeyOf("jwks_file"),
                         file + ": " + keys.error());
  }
}

void ReadJwksPlace(MapReader& map, JwtRule& rule, Problems& problems) {
  rule.jwks_file = map.Text("jwks_file").value_or("");
  rule.jwks_url = map.Text("jwks_url").value_or("");
  rule.jwks_ca_file = map.Text("jwks_ca_file").value_or("");
  if (map.Has("jwks_file") == map.Has("jwks_url")) {
    problems.Error(map.node().place, map.key(),
                   "the issuer's keys come from one place; accepted: jwks_file or jwks_url");
    return;
  }
  if (rule.jwks_url.empty()) {
    if (!rule.jwks_ca_file.empty()) {
      problems.Error(map.PlaceOf("jwks_ca_file"), map.KeyOf("jwks_ca_file"),
                     "is for jwks_url: a file is not verified by TLS");
    }
    return;
  }
  auto backend = BackendFromUrl(rule.jwks_url);
  if (!backend || backend->scheme != "https") {
    problems.Error(map.PlaceOf("jwks_url"), map.KeyOf("jwks_url"),
                   "whoever changes these keys decides who approves; accepted: an https:// url");
    return;
  }
  if (const auto problem =
          rule.jwks_ca_file.empty() ? std::string() : CertificateFileProblem(rule.jwks_ca_file);
      !problem.empty()) {
    problems.Error(map.PlaceOf("jwks_ca_file"), map.KeyOf("jwks_ca_file"), problem);
  }
  backend->name = "jwks_url";
  backend->tls_ca_file = rule.jwks_ca_file;
  rule.jwks_backend = std::move(*backend);
}

void ReadJwt(const YamlNode& node, OperatorDirectory& book, Problems& problems,
             const ReadNamedFile& read) {
  MapReader map(node, "jwt", problems);
  JwtRule rule;
  (void)map.Need("issuer", "it must equal the token's iss");
  (void)map.Need("audience", "a token for another service must not open this one");
  rule.issuer = map.Text("issuer").value_or("");
  rule.audience = map.Text("audience").value_or("");
  rule.name_claim = map.Text("name_claim").value_or(rule.name_claim);
  rule.groups_claim = map.Text("groups_claim").value_or(rule.groups_claim);
  ReadJwksPlace(map, rule, problems);
  if (!rule.jwks_file.empty()) ReadJwksFile(map, rule.jwks_file, book, read);
  map.Finish();
  book.jwt = std::move(rule);
}

void ReadCertificates(const YamlNode& node, OperatorDirectory& book, Problems& problems) {
  MapReader map(node, "client_certificates", problems);
  const YamlNode* const groups = map.Need("groups", "it says which groups a certificate is in");
  map.Finish();
  if (groups == nullptr) return;
  MapReader members(*groups, map.KeyOf("groups"), problems);
  if (groups->kind != YamlNode::Kind::kMap) return;
  for (const auto& member : groups->members) {
    if (!IsOperatorName(member.name)) {
      problems.Error(member.name_place, members.KeyOf(member.name), std::string(kNameHelp));
    }
    book.certificates[member.name] = ReadGroups(members, member.name);
  }
}

void ReadBook(const YamlNode& tree, OperatorDirectory& book, Problems& problems,
              const ReadNamedFile& read) {
  MapReader root(tree, "", problems);
  const YamlNode* const version = root.Need("version", "accepted: version: 1");
  if (version != nullptr && (version->is_quoted || version->text != "1")) {
    problems.Error(version->place, "version", "this program reads version 1; accepted: 1");
  }
  if (const YamlNode* tokens = root.Get("tokens")) ReadTokens(*tokens, book, problems);
  if (const YamlNode* jwt = root.Get("jwt")) ReadJwt(*jwt, book, problems, read);
  if (const YamlNode* certificates = root.Get("client_certificates")) {
    ReadCertificates(*certificates, book, problems);
  }
  if (const YamlNode* roles = root.Get("roles")) {
    MapReader map(*roles, "roles", problems);
    for (const auto& [name, role] : kRoleNames) {
      book.groups_of_role[static_cast<std::size_t>(role)] = ReadGroups(map, name);
    }
    map.Finish();
  }
  root.Finish();
  if (!root.Has("tokens") && !root.Has("jwt") && !root.Has("client_certificates")) {
    problems.Error(
        tree.place, "",
        "names nobody; accepted: tokens, jwt, client_certificates, one of them at least");
  }
}

}  // namespace

bool IsOperatorName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kOperatorNameBytesMax && name.front() != ' ' &&
         name.back() != ' ' && std::all_of(name.begin(), name.end(), [](char c) {
           return c >= ' ' && c <= '~' && c != '"' && c != '\\';
         });
}

LoadedOperators LoadOperatorsText(const std::string& file, const std::string& yaml,
                                  const ReadNamedFile& read) {
  LoadedOperators loaded;
  Problems problems;
  const std::size_t number = problems.AddFile(file);
  const YamlNode tree = ReadYaml(number, yaml, problems, limits::kOperatorFileBytesMax);
  auto book = std::make_shared<OperatorDirectory>();
  if (!problems.has_errors()) {
    if (tree.kind == YamlNode::Kind::kMap) {
      ReadBook(tree, *book, problems, read);
    } else {
      problems.Error({number, 0, 0}, "version", "the file is no map; accepted: version: 1 first");
    }
  }
  if (!problems.has_errors()) loaded.book = std::move(book);
  loaded.problems = problems.Take();
  return loaded;
}

bool OperatorDirectory::NamesGroup(std::string_view name) const {
  const auto has = [name](const std::vector<std::string>& groups) {
    return std::find(groups.begin(), groups.end(), name) != groups.end();
  };
  return std::any_of(groups_of_role.begin(), groups_of_role.end(), has) ||
         std::any_of(tokens.begin(), tokens.end(),
                     [&](const Token& token) { return has(token.groups); }) ||
         std::any_of(certificates.begin(), certificates.end(),
                     [&](const auto& certificate) { return has(certificate.second); });
}

Roles OperatorDirectory::RolesOf(const std::vector<std::string>& groups) const {
  Roles roles;
  for (const auto& [name, role] : kRoleNames) {
    const auto& allowed = groups_of_role[static_cast<std::size_t>(role)];
    const bool is_member = std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
      return std::find(allowed.begin(), allowed.end(), group) != allowed.end();
    });
    if (is_member) roles.Add(role);
  }
  return roles;
}

std::optional<Operator> OperatorDirectory::FindToken(const Digest& sha256) const {
  const Token* found = nullptr;
  for (const Token& token : tokens) {
    if (CRYPTO_memcmp(token.sha256.data(), sha256.data(), sha256.size()) == 0) found = &token;
  }
  if (found == nullptr) return std::nullopt;
  Operator who{found->name, found->groups, RolesOf(found->groups), Operator::How::kToken};
  for (const auto& [name, role] : kRoleNames) {
    if (found->roles.Has(role)) who.roles.Add(role);
  }
  return who;
}

Operator OperatorDirectory::OfCertificate(const std::string& name) const {
  const auto found = certificates.find(name);
  Operator who{name, {}, {}, Operator::How::kCertificate};
  if (found == certificates.end()) return who;
  who.groups = found->second;
  who.roles = RolesOf(who.groups);
  return who;
}

}  // namespace recourse
