#include "policy/model/callers.h"

#include <algorithm>
#include <expected>
#include <tuple>

#include "proxy/base/crypto/jwt.h"
#include "proxy/base/hex.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kOfToken = "jwt:";
constexpr std::string_view kOfField = "field:";
// No caller's name begins so, and no certificate's.
constexpr std::string_view kUnknownCaller = "unknown:";
constexpr std::string_view kBearer = "Bearer ";

using Value = std::expected<std::string, std::string>;

bool IsPlain(char c) {
  return c > ' ' && c <= '~' && c != '"' && c != '\\' && c != ';' && c != '%';
}

// What parts a name, or cannot stand in a log, is written as %XX.
std::string AsPart(std::string_view value) {
  std::string part;
  for (const char c : value) {
    if (IsPlain(c)) {
      part += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      part += {'%', kHexDigits[byte >> 4], kHexDigits[byte & 0xf]};
    }
  }
  return part;
}

// The one value of a field that has to be there.
std::expected<std::string_view, std::string> OnlyValue(const std::string& field,
                                                       const FieldValues& values) {
  const auto all = values(field);
  if (all.empty()) return std::unexpected("the field " + field + " is not in it");
  if (all.size() > 1) return std::unexpected("the field " + field + " is in it more than once");
  const std::string_view value = TrimBlanks(all.front());
  if (value.empty()) return std::unexpected("the field " + field + " is empty");
  return value;
}

Value Named(std::string_view value, const std::string& where) {
  if (value.size() <= limits::kCallerBytesMax) return AsPart(value);
  return std::unexpected(where + " has more than 256 bytes");
}

Value NameInField(const std::string& field, const FieldValues& values) {
  const auto value = OnlyValue(field, values);
  if (!value) return std::unexpected(value.error());
  return Named(*value, "the field " + field);
}

Value NameInToken(const CallerToken& rule, const FieldValues& values, WallTime now) {
  const auto value = OnlyValue(rule.field, values);
  if (!value) return std::unexpected(value.error());
  std::string_view token = *value;
  if (EqualsIgnoreCase(token.substr(0, kBearer.size()), kBearer)) {
    token = TrimBlanks(token.substr(kBearer.size()));
  } else if (EqualsIgnoreCase(rule.field, "authorization")) {
    return std::unexpected("the field Authorization holds no bearer token");
  }
  const auto jwt = ParseJwt(token);
  if (!jwt) return std::unexpected(jwt.error());
  const auto keys = rule.keys == nullptr ? nullptr : rule.keys->keys();
  if (keys == nullptr) return std::unexpected("the issuer's keys have not been read");
  const Jwk* const key = FindKey(*keys, *jwt);
  if (key == nullptr) return std::unexpected("the issuer has no key that the token names");
  if (!HasSignature(*jwt, *key)) return std::unexpected("the token's signature is wrong");
  if (auto holds = JudgeClaims(jwt->claims, rule.issuer, rule.audience, now); !holds) {
    return std::unexpected(holds.error());
  }
  const Json* const claim = ClaimOf(jwt->claims, rule.claim);
  if (claim == nullptr || claim->kind != Json::Kind::kString || claim->text.empty()) {
    return std::unexpected("the token's " + rule.claim + " is no text that names a caller");
  }
  return Named(claim->text, "the token's " + rule.claim);
}

std::string Joined(const std::string& token, const std::string& field, std::string_view identity) {
  std::string name;
  for (const std::string_view part : {std::string_view(token), std::string_view(field), identity}) {
    if (part.empty()) continue;
    if (!name.empty()) name += ';';
    name += part;
  }
  return name;
}

}  // namespace

bool NameAlike(const CallersRule& a, const CallersRule& b) {
  const auto words = [](const CallersRule& rule) {
    const CallerToken token = rule.jwt.value_or(CallerToken());
    return std::tuple(rule.field, rule.jwt.has_value(), token.field, token.issuer, token.audience,
                      token.claim);
  };
  return words(a) == words(b);
}

Caller ReadCaller(const CallersRule& rule, const CallerIdentity& identity,
                  const FieldValues& values, WallTime now) {
  Caller caller;
  if (!rule.names_any()) {
    caller.name = identity.name;
    return caller;
  }
  std::string token, field;
  if (rule.jwt) {
    const Value name = NameInToken(*rule.jwt, values, now);
    if (name) token = std::string(kOfToken) + *name;
    if (!name) caller.problem = name.error();
  }
  if (!rule.field.empty() && caller.problem.empty()) {
    const Value name = NameInField(rule.field, values);
    if (name) field = std::string(kOfField) + *name;
    if (!name) caller.problem = name.error();
  }
  if (!caller.problem.empty()) {
    caller.name = std::string(kUnknownCaller) + identity.name;
    return caller;
  }
  using Of = CallerIdentity::Of;
  const std::string certificate = identity.of == Of::kCertificate ? identity.name : "";
  const std::string believed = identity.of == Of::kAnybody ? "" : identity.name;
  caller.name = Joined(token, field, token.empty() ? believed : certificate);
  if (rule.jwt) caller.verified_field = rule.jwt->field;
  caller.earlier.push_back({identity.name});
  if (!token.empty() && !field.empty()) {
    caller.earlier.push_back({Joined(token, {}, certificate), true});
    caller.earlier.push_back({Joined({}, field, believed)});
  }
  return caller;
}

bool AreOneName(std::string_view a, std::string_view b) {
  const auto bare = [](std::string_view name) {
    name = TrimBlanks(name);
    while (name.ends_with('.')) name.remove_suffix(1);
    return name;
  };
  return EqualsIgnoreCase(bare(a), bare(b));
}

bool IsPartOfCaller(std::string_view who, std::string_view caller) {
  if (AreOneName(who, caller)) return true;
  std::string name;
  while (caller.starts_with(kOfToken) || caller.starts_with(kOfField)) {
    const auto end = std::min(caller.find(';'), caller.size());
    const auto begin = caller.starts_with(kOfToken) ? kOfToken.size() : kOfField.size();
    if (PercentDecode(caller.substr(begin, end - begin), name) && AreOneName(who, name)) {
      return true;
    }
    caller.remove_prefix(std::min(end + 1, caller.size()));
    if (!caller.empty() && AreOneName(who, caller)) return true;
  }
  return false;
}

}  // namespace recourse
