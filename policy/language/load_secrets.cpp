// Header fields whose values stand in mounted files.
#include "policy/language/load_rules.h"
#include "policy/language/policy_builder.h"
#include "policy/language/tls_files.h"

namespace recourse {
namespace {

SecretHeader ReadSecretHeader(const YamlNode::Member& member, const std::string& key,
                              TlsFiles files, Problems& problems) {
  if (!IsToken(member.name) || IsReservedHeader(member.name)) {
    problems.Error(member.name_place, key,
                   "accepted: the fixed name of a field that is not about framing or routing");
  }
  MapReader map(member.value, key, problems);
  map.Need("file", "the mounted file with the value in its first line: file: /run/secrets/token");
  SecretHeader secret{member.name, map.Text("file").value_or(""), map.Text("prefix").value_or("")};
  map.Finish();
  if (!IsFieldValue(secret.prefix)) {
    problems.Error(map.PlaceOf("prefix"), map.KeyOf("prefix"),
                   "a field value has no line breaks or controls");
  }
  if (files == TlsFiles::kCheck && !secret.file.empty()) {
    const std::string problem = SecretFileProblem(secret.file);
    if (!problem.empty()) problems.Error(map.PlaceOf("file"), map.KeyOf("file"), problem);
  }
  return secret;
}

}  // namespace

std::vector<SecretHeader> ReadSecretHeaders(const YamlNode& fields, const std::string& key,
                                            TlsFiles files, Problems& problems) {
  std::vector<SecretHeader> secrets;
  for (const auto& member : fields.members) {
    secrets.push_back(ReadSecretHeader(member, JoinKey(key, member.name), files, problems));
  }
  return secrets;
}

}  // namespace recourse
