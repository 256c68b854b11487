// Header fields whose values stand in mounted files.
#include <algorithm>

#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/language/tls_files.h"
#include "policy/model/url.h"

namespace recourse {
namespace {

void CheckSecretFile(MapReader& map, std::string_view word, const std::string& file,
                     TlsFiles files) {
  if (files != TlsFiles::kCheck || file.empty()) return;
  const std::string problem = SecretFileProblem(file);
  if (!problem.empty()) map.problems().Error(map.PlaceOf(word), map.KeyOf(word), problem);
}

// nullptr: there is none, or a problem was added.
std::shared_ptr<TokenRule> ReadTokenRule(MapReader& secret, TlsFiles files) {
  const YamlNode* const node = secret.Get("token");
  if (node == nullptr) return nullptr;
  MapReader map(*node, secret.KeyOf("token"), secret.problems(),
                "{ url: \"https://login.example/oauth/token\", client_id: agent, secret_file: "
                "/run/secrets/client }");
  map.Need("url", "where a token is asked for: url: \"https://login.example/oauth/token\"");
  map.Need("client_id", "the client that the token is for");
  map.Need("secret_file", "the mounted file with the client's secret in its first line");
  const std::string url = map.Text("url").value_or("");
  auto rule = std::make_shared<TokenRule>();
  rule->backend = BackendFromUrl(url).value_or(Backend());
  rule->backend.name = "token";
  rule->client_id = map.Text("client_id").value_or("");
  rule->secret_file = map.Text("secret_file").value_or("");
  rule->scope = map.Text("scope").value_or("");
  rule->audience = map.Text("audience").value_or("");
  rule->backend.tls_ca_file = map.Text("ca_file").value_or("");
  map.Finish();
  const std::string problem = url.empty() ? std::string() : UrlProblem(url);
  if (!problem.empty()) map.problems().Error(map.PlaceOf("url"), map.KeyOf("url"), problem);
  if (problem.empty() && rule->backend.scheme == "http" && !IsThisHost(rule->backend)) {
    map.problems().Error(map.PlaceOf("url"), map.KeyOf("url"),
                         "a client's secret goes to an https url only");
  }
  CheckSecretFile(map, "secret_file", rule->secret_file, files);
  if (files == TlsFiles::kCheck && !rule->backend.tls_ca_file.empty()) {
    const std::string wrong = CertificateFileProblem(rule->backend.tls_ca_file);
    if (!wrong.empty()) map.problems().Error(map.PlaceOf("ca_file"), map.KeyOf("ca_file"), wrong);
  }
  return rule;
}

SecretHeader ReadSecretHeader(const YamlNode::Member& member, const std::string& key,
                              TlsFiles files, Sources sources, Problems& problems) {
  if (!IsToken(member.name) || IsReservedHeader(member.name)) {
    problems.Error(member.name_place, key,
                   "accepted: the fixed name of a field that is not about framing or routing");
  }
  MapReader map(member.value, key, problems,
                "{ file: /run/secrets/token, prefix: \"Bearer \" }: no secret stands in this file");
  const bool has_token = sources == Sources::kFilesAndTokens && map.Get("token") != nullptr;
  if (!has_token) {
    map.Need("file", "the mounted file with the value in its first line: file: /run/secrets/token");
  }
  SecretHeader secret{member.name, map.Text("file").value_or(""), map.Text("prefix").value_or("")};
  if (has_token) secret.token = ReadTokenRule(map, files);
  if (has_token && map.Has("file")) {
    problems.Error(map.PlaceOf("file"), map.KeyOf("file"),
                   "the value is either in a file or a token; say one of them");
  }
  map.Finish();
  if (!IsFieldValue(secret.prefix)) {
    problems.Error(map.PlaceOf("prefix"), map.KeyOf("prefix"),
                   "a field value has no line breaks or controls");
  }
  CheckSecretFile(map, "file", secret.file, files);
  return secret;
}

}  // namespace

std::vector<SecretHeader> ReadSecretHeaders(const YamlNode& fields, const std::string& key,
                                            TlsFiles files, Sources sources, Problems& problems) {
  std::vector<SecretHeader> secrets;
  for (const auto& member : fields.members) {
    secrets.push_back(
        ReadSecretHeader(member, JoinKey(key, member.name), files, sources, problems));
  }
  return secrets;
}

std::vector<SecretHeader> ReadCredentials(MapReader& map, TlsFiles files, Sources sources,
                                          std::string_view without) {
  const YamlNode* node = map.Get("credentials");
  if (node == nullptr) return {};
  const std::string key = map.KeyOf("credentials");
  if (node->kind != YamlNode::Kind::kMap || node->members.empty()) {
    map.problems().Error(
        node->place, key,
        "accepted: fields with the files that hold their values, { Authorization: { file: "
        "/run/secrets/token, prefix: \"Bearer \" } }" +
            std::string(without));
    return {};
  }
  auto secrets = ReadSecretHeaders(*node, key, files, sources, map.problems());
  for (auto one = secrets.begin(); one != secrets.end(); ++one) {
    if (std::any_of(secrets.begin(), one, [one](const SecretHeader& earlier) {
          return EqualsIgnoreCase(earlier.name, one->name);
        })) {
      map.problems().Error(node->place, key, one->name + " is given twice");
    }
  }
  return secrets;
}

}  // namespace recourse
