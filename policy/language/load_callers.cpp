// What tells callers apart besides their certificates.
#include <algorithm>
#include <array>

#include "policy/language/policy_builder.h"

namespace recourse {
namespace {

// Of a field's name, between '-': its value proves something, so it must stand in no log.
bool CarriesSecret(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kWords{
      "token", "key", "apikey", "secret", "password", "credential", "jwt", "bearer", "assertion"};
  std::string lower = ToLower(name);
  std::ranges::replace(lower, '_', '-');
  std::string_view rest = lower;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('-'), rest.size());
    if (std::ranges::find(kWords, rest.substr(0, end)) != kWords.end()) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return IsCredentialField(name);
}

bool IsFieldName(std::string_view name) { return IsToken(name) && !IsReservedHeader(name); }

void ReadField(MapReader& map, CallersRule& rule) {
  rule.field = map.Text("field").value_or("");
  if (!map.Has("field")) return;
  const auto refuse = [&map](std::string_view problem) {
    map.problems().Error(map.PlaceOf("field"), map.KeyOf("field"), std::string(problem));
  };
  if (!IsFieldName(rule.field)) {
    refuse("accepted: the name of a header field that is not about framing or routing");
  } else if (CarriesSecret(rule.field)) {
    refuse(
        "its value would be the caller's name, which stands in logs and in the ledger; for a "
        "token that is verified say `jwt: { field, issuer, audience, jwks_file }`");
  }
}

void ReadToken(const YamlNode& node, CallersRule& rule, PolicyBuilder& draft) {
  MapReader map(node, "callers.jwt", draft.problems);
  CallerToken token;
  (void)map.Need("issuer", "it must equal the token's iss");
  (void)map.Need("audience", "a token for another service must not name a caller here");
  (void)map.Need("jwks_file", "the issuer's keys, which verify the token");
  token.field = map.Text("field").value_or(token.field);
  token.issuer = map.Text("issuer").value_or("");
  token.audience = map.Text("audience").value_or("");
  token.claim = map.Text("claim").value_or(token.claim);
  token.jwks_file = map.Text("jwks_file").value_or("");
  map.Finish();
  if (!IsFieldName(token.field) || EqualsIgnoreCase(token.field, "cookie")) {
    draft.problems.Error(map.PlaceOf("field"), map.KeyOf("field"),
                         "accepted: the name of a header field that holds one token");
  }
  token.keys = std::make_shared<JwksFile>(token.jwks_file);
  if (draft.tls_files == TlsFiles::kCheck && !token.jwks_file.empty()) {
    if (const auto read = token.keys->Read(); !read) {
      draft.problems.Error(map.PlaceOf("jwks_file"), map.KeyOf("jwks_file"), read.error());
    }
  }
  rule.jwt = std::move(token);
}

}  // namespace

void LoadCallers(const YamlNode& section, PolicyBuilder& draft) {
  MapReader map(section, "callers", draft.problems);
  CallersRule& rule = draft.policy.callers;
  ReadField(map, rule);
  if (const YamlNode* const jwt = map.Get("jwt")) ReadToken(*jwt, rule, draft);
  map.Finish();
  if (section.kind == YamlNode::Kind::kMap && !map.Has("field") && !map.Has("jwt")) {
    draft.problems.Error(section.place, "callers", "names nothing; accepted: field, jwt, or both");
  }
  if (rule.jwt && EqualsIgnoreCase(rule.field, rule.jwt->field)) {
    draft.problems.Error(map.PlaceOf("field"), map.KeyOf("field"),
                         "is the field of the token already, which jwt verifies");
  }
}

void CheckQuotaNames(PolicyBuilder& draft) {
  const CallersRule& rule = draft.policy.callers;
  if (!rule.names_any()) return;
  const std::string_view begin = rule.jwt ? "jwt:" : "field:";
  for (const LocatedText& quota : draft.quota_callers) {
    if (quota.text.starts_with(begin)) continue;
    draft.problems.Warn(quota.place, quota.key,
                        "no caller has this name: with `callers` it begins with " +
                            std::string(begin) + ", as `recourse policy explain` shows it");
  }
}

}  // namespace recourse
