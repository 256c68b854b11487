#include "policy/principal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "proxy/base/base64url.h"
#include "proxy/base/json.h"

namespace recourse {
namespace {

constexpr std::string_view kPrincipalVersion = "recourse-principal-1";

// Parts of a field's name, between `-` and `_`. One of them is enough.
constexpr std::array<std::string_view, 20> kCredentialWords = {
    "authorization", "auth",        "token",        "apikey", "apitoken",  "secret", "credential",
    "credentials",   "password",    "passwd",       "jwt",    "assertion", "bearer", "impersonate",
    "impersonation", "accesstoken", "sessiontoken", "sudo",   "principal", "oidc"};
// Two parts, one behind the other.
constexpr std::array<std::array<std::string_view, 2>, 16> kCredentialPairs = {{
    {"api", "key"},
    {"access", "key"},
    {"auth", "key"},
    {"application", "key"},
    {"subscription", "key"},
    {"functions", "key"},
    {"app", "key"},
    {"user", "id"},
    {"user", "email"},
    {"user", "name"},
    {"forwarded", "user"},
    {"forwarded", "email"},
    {"remote", "user"},
    {"behalf", "of"},
    {"act", "as"},
    {"client", "cert"},
}};
// Whole names without any of these words.
constexpr std::array<std::string_view, 8> kCredentialNames = {
    "cookie",       "x-user",        "x-username", "x-actor",
    "remote-email", "x-end-user-id", "x-email",    "x-honeycomb-team"};
// A field with one of these parts is none: it guards against forgery or repeats, or names a trace.
constexpr std::array<std::string_view, 7> kNoCredentialWords = {
    "csrf", "xsrf", "idempotency", "recourse", "dpop", "payment", "push"};

constexpr std::array<std::string_view, 14> kCredentialParameters = {"api_key",
                                                                    "apikey",
                                                                    "api-key",
                                                                    "key",
                                                                    "access_token",
                                                                    "token",
                                                                    "auth",
                                                                    "sig",
                                                                    "signature",
                                                                    "x-amz-signature",
                                                                    "x-amz-security-token",
                                                                    "auth_token",
                                                                    "oauth_token",
                                                                    "private_token"};

// Beginnings of names.
constexpr std::array<std::string_view, 27> kPlainCookies = {
    "csrf",    "xsrf",      "_csrf", "_xsrf",    "__host-csrf", "_ga",          "_gid",
    "_gat",    "_gcl",      "_fbp",  "_fbc",     "_hj",         "_clck",        "_clsk",
    "__utm",   "amplitude", "mp_",   "ajs_",     "awsalb",      "awselb",       "arraffinity",
    "__cf_bm", "_cfuvid",   "gclb",  "serverid", "bigipserver", "ingresscookie"};

constexpr std::array<std::string_view, 14> kTenantWords = {
    "tenant",     "tenantid", "org",  "organization", "organisation", "workspace", "account",
    "subaccount", "project",  "team", "merchant",     "namespace",    "realm",     "company"};
constexpr std::array<std::string_view, 1> kTenantNames = {"stripe-context"};

constexpr std::size_t kUsualNameBytes = 64;

// Fields that nearly every call has, so that most names are looked for once only.
constexpr std::array<std::string_view, 10> kUsualFields = {
    "accept",     "accept-encoding", "content-type", "user-agent", "host",
    "connection", "content-length",  "traceparent",  "tracestate", "accept-language"};

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

struct Meaning {
  bool is_principal = false;
  bool is_tenant = false;
};

// Of a name in lower case.
Meaning MeaningOfLower(std::string_view name) {
  if (Contains(kUsualFields, name)) return {};
  bool is_none = false;
  bool is_principal = Contains(kCredentialNames, name);
  bool is_tenant = Contains(kTenantNames, name);
  std::string_view last;
  while (!name.empty()) {
    const auto end = std::min(name.find_first_of("-_."), name.size());
    const std::string_view part = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const std::array<std::string_view, 2> pair = {last, part};
    last = part;
    is_none = is_none || Contains(kNoCredentialWords, part);
    is_principal = is_principal || Contains(kCredentialWords, part) ||
                   std::ranges::find(kCredentialPairs, pair) != kCredentialPairs.end();
    is_tenant = is_tenant || Contains(kTenantWords, part);
  }
  is_principal = is_principal && !is_none;
  return {is_principal, is_tenant && !is_principal};
}

// On the way of every write: a usual name is not copied.
Meaning MeaningOf(std::string_view name) {
  if (name.size() > kUsualNameBytes) return MeaningOfLower(ToLower(name));
  std::array<char, kUsualNameBytes> lower;
  std::ranges::transform(name, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return MeaningOfLower({lower.data(), name.size()});
}

// The cookies that are credentials, in an order that does not depend on the sender's.
std::vector<std::string_view> CookiesIn(std::string_view field) {
  std::vector<std::string_view> cookies;
  while (!field.empty()) {
    const auto end = std::min(field.find(';'), field.size());
    const std::string_view cookie = TrimBlanks(field.substr(0, end));
    field.remove_prefix(std::min(end + 1, field.size()));
    const std::string_view name = cookie.substr(0, cookie.find('='));
    if (!cookie.empty() && IsPrincipalCookie(name)) cookies.push_back(cookie);
  }
  std::ranges::sort(cookies);
  return cookies;
}

std::string CookiesOf(std::string_view field) {
  std::string text;
  for (const std::string_view cookie : CookiesIn(field)) AppendPart(text, cookie);
  return text;
}

std::string_view Behind(std::string_view text, std::string_view mark) {
  const auto at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

// The value of `name="value"` or `name=value` in a list of such parameters.
std::string_view Parameter(std::string_view list, std::string_view name) {
  std::string mark(name);
  mark += '=';
  std::string_view value = Behind(list, mark);
  if (value.starts_with('"')) value.remove_prefix(1);
  return value.substr(0, value.find_first_of("\",/ "));
}

std::string AsBase64Url(std::string_view base64) {
  std::string text(base64.substr(0, base64.find('=')));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::optional<std::string> JwtLabel(std::string_view token) {
  const auto first = token.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const std::string_view rest = token.substr(first + 1);
  const auto claims = FromBase64Url(rest.substr(0, rest.find('.')));
  if (!claims) return std::nullopt;
  const auto json = ParseJson(*claims);
  const Json* const subject = json ? AtPointer(*json, "/sub") : nullptr;
  if (subject == nullptr || !subject->is_scalar()) return std::nullopt;
  const Json* const issuer = AtPointer(*json, "/iss");
  std::string label = "jwt";
  AppendPart(label, issuer == nullptr ? std::string() : CanonicalJson(*issuer));
  AppendPart(label, CanonicalJson(*subject));
  return label;
}

std::string AuthorizationLabel(std::string_view value) {
  const std::string scheme = ToLower(value.substr(0, value.find(' ')));
  const std::string_view rest = TrimBlanks(Behind(value, " "));
  std::string_view id;
  std::string second;
  if (scheme.starts_with("aws4-")) {
    id = Parameter(rest, "Credential");
  } else if (scheme == "signature") {
    id = Parameter(rest, "keyId");
  } else if (scheme == "oauth") {
    id = Parameter(rest, "oauth_consumer_key");
    second = Parameter(rest, "oauth_token");
  } else if (scheme == "basic") {
    const auto pair = FromBase64Url(AsBase64Url(rest));
    if (!pair) return std::string(value);
    std::string label = "basic";
    AppendPart(label, std::string_view(*pair).substr(0, pair->find(':')));
    return label;
  } else if (scheme == "bearer") {
    return JwtLabel(rest).value_or(std::string(value));
  }
  if (id.empty()) return std::string(value);
  std::string label = scheme;
  AppendPart(label, id);
  AppendPart(label, second);
  return label;
}

// Name and value of every credential, in an order that does not depend on the sender's.
// `of_value` says what of a field counts.
template <class OfValue>
std::string Credentials(const Headers& headers, const Pairs& query, OfValue of_value) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, value] : headers) {
    if (!IsPrincipalField(name)) continue;
    std::string counts =
        EqualsIgnoreCase(name, "cookie") ? CookiesOf(value) : of_value(name, value);
    if (!counts.empty()) found.emplace_back(ToLower(name), std::move(counts));
  }
  for (const auto& [name, value] : query) {
    if (IsPrincipalParameter(name)) found.emplace_back("?" + ToLower(name), value);
  }
  std::ranges::sort(found);
  std::string text;
  for (const auto& [name, value] : found) {
    AppendPart(text, name);
    AppendPart(text, value);
  }
  return text;
}

}  // namespace

bool IsPrincipalField(std::string_view name) { return MeaningOf(name).is_principal; }

bool IsTenantField(std::string_view name) { return MeaningOf(name).is_tenant; }

bool IsPrincipalParameter(std::string_view name) {
  return Contains(kCredentialParameters, ToLower(name));
}

bool IsPrincipalCookie(std::string_view name) {
  const std::string lower = ToLower(name);
  return std::ranges::none_of(kPlainCookies,
                              [&](std::string_view plain) { return lower.starts_with(plain); });
}

Principal PrincipalOf(const HmacKey& secret, const std::string& caller, const Headers& headers,
                      const Pairs& query) {
  const std::string text =
      Credentials(headers, query, [](std::string_view, const std::string& value) { return value; });
  const Digest digest = secret.OfParts({kPrincipalVersion, caller, text});
  Principal principal = kNoPrincipal;
  std::memcpy(&principal, digest.data(), sizeof principal);
  return principal == kNoPrincipal ? 1 : principal;
}

std::string TenantsOf(const Headers& headers) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, value] : headers) {
    if (IsTenantField(name)) found.emplace_back(ToLower(name), value);
  }
  std::ranges::sort(found);
  std::string text;
  for (const auto& [name, value] : found) {
    AppendPart(text, name);
    AppendPart(text, value);
  }
  return text;
}

std::string CredentialLabel(const Headers& headers, const Pairs& query) {
  return Credentials(headers, query, [](std::string_view name, const std::string& value) {
    return EqualsIgnoreCase(name, "authorization") ? AuthorizationLabel(value) : value;
  });
}

std::vector<std::string> PrincipalNames(const Headers& headers, const Pairs& query) {
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    if (!IsPrincipalField(name)) continue;
    if (!EqualsIgnoreCase(name, "cookie")) {
      names.push_back("header " + name);
      continue;
    }
    for (const std::string_view cookie : CookiesIn(value)) {
      names.push_back("cookie " + std::string(cookie.substr(0, cookie.find('='))));
    }
  }
  for (const auto& [name, value] : query) {
    if (IsPrincipalParameter(name)) names.push_back("query " + name);
  }
  return names;
}

}  // namespace recourse
