#include "policy/principal.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstring>
#include <optional>

#include "proxy/base/base64url.h"
#include "proxy/base/json.h"

namespace recourse {
namespace {

constexpr std::string_view kPrincipalVersion = "recourse-principal-1";

// Parts of a field's name, between `-` and `_`. One of them is enough.
constexpr std::string_view kCredentialWords[] = {
    "authorization", "auth",     "token",     "apikey",      "apitoken",     "secret",
    "credential",    "password", "passwd",    "credentials", "jwt",          "assertion",
    "bearer",        "key",      "pat",       "accesstoken", "sessiontoken", "principal",
    "oidc",          "session",  "sessionid", "signature",   "impersonate",  "impersonation",
    "sudo",          "user",     "userid",    "username",    "login",        "identity",
    "actor",         "runas",    "delegated", "subject",     "webauth"};
// Two parts, one behind the other.
constexpr std::array<std::string_view, 2> kCredentialPairs[] = {
    {"forwarded", "email"}, {"behalf", "of"}, {"act", "as"}, {"run", "as"},
    {"client", "cert"},     {"client", "id"}, {"s", "dn"},   {"client", "cn"}};
// Whole names without any of these words.
constexpr std::string_view kCredentialNames[] = {"cookie", "remote-email",     "x-email",
                                                 "from",   "x-honeycomb-team", "x-pin"};
// A field with one of these is none: it differs with every request, guards against forgery or
// repeats, or says what the client is.
constexpr std::string_view kNoCredentialWords[] = {"csrf",      "xsrf",  "idempotency", "recourse",
                                                   "timestamp", "nonce", "dpop"};
constexpr std::array<std::string_view, 2> kNoCredentialPairs[] = {
    {"user", "agent"},    {"request", "token"},      {"request", "key"},   {"retry", "token"},
    {"client", "token"},  {"continuation", "token"}, {"form", "token"},    {"page", "token"},
    {"push", "token"},    {"antiforgery", "token"},  {"captcha", "token"}, {"recaptcha", "token"},
    {"websocket", "key"}, {"cache", "key"},          {"routing", "key"},   {"fetch", "user"},
    {"partition", "key"}, {"mcp", "session"}};

constexpr std::string_view kCredentialParameters[] = {"api_key",
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

// Whole names, and beginnings of names: cookies against forgery, for analytics, for stickiness.
constexpr std::string_view kPlainCookies[] = {"csrf",          "csrftoken",
                                              "csrf_token",    "csrf-token",
                                              "xsrf-token",    "xsrf",
                                              "_csrf",         "_xsrf",
                                              "_csrf_token",   "__host-csrf",
                                              "_ga",           "_gid",
                                              "_gat",          "_fbp",
                                              "_fbc",          "_hjid",
                                              "_clck",         "_clsk",
                                              "__utma",        "__utmb",
                                              "__utmc",        "__utmt",
                                              "__utmv",        "__utmz",
                                              "awsalb",        "awsalbcors",
                                              "awsalbtg",      "awsalbtgcors",
                                              "awselb",        "awselbcors",
                                              "__cf_bm",       "_cfuvid",
                                              "gclb",          "serverid",
                                              "arraffinity",   "arraffinitysamesite",
                                              "ingresscookie", "ajs_anonymous_id"};
constexpr std::string_view kPlainCookieBeginnings[] = {
    "_ga_", "_gat_", "_gcl_", "_hjsession", "_hjfirstseen", "bigipserver", "amplitude_id_"};

constexpr std::string_view kTenantWords[] = {
    "tenant",     "tenantid", "org",  "organization", "organisation", "workspace", "account",
    "subaccount", "project",  "team", "merchant",     "namespace",    "realm",     "company",
    "customer",   "member",   "shop", "store",        "seller"};
constexpr std::string_view kTenantNames[] = {"stripe-context", "x-goog-user-project"};

constexpr std::size_t kUsualNameBytes = 64;

// Fields that nearly every call has, so that most names are looked for once only.
constexpr std::array<std::string_view, 10> kUsualFields = {
    "accept",     "accept-encoding", "content-type", "user-agent", "host",
    "connection", "content-length",  "traceparent",  "tracestate", "accept-language"};

template <class List, class Item>
bool Contains(const List& list, const Item& item) {
  return std::ranges::find(list, item) != std::end(list);
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
  if (Contains(kTenantNames, name)) return {.is_tenant = true};
  bool is_tenant = false;
  std::string_view last;
  while (!name.empty()) {
    const auto end = std::min(name.find_first_of("-_."), name.size());
    const std::string_view part = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const std::array<std::string_view, 2> pair = {last, part};
    last = part;
    is_none = is_none || Contains(kNoCredentialWords, part) || Contains(kNoCredentialPairs, pair);
    is_principal =
        is_principal || Contains(kCredentialWords, part) || Contains(kCredentialPairs, pair);
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

// Adds the cookies that are credentials.
void AddCookies(std::string_view field, std::vector<std::string_view>& cookies) {
  while (!field.empty()) {
    const auto end = std::min(field.find(';'), field.size());
    const std::string_view cookie = TrimBlanks(field.substr(0, end));
    field.remove_prefix(std::min(end + 1, field.size()));
    const std::string_view name = cookie.substr(0, cookie.find('='));
    if (!cookie.empty() && IsPrincipalCookie(name)) cookies.push_back(cookie);
  }
}

// Of all Cookie fields, in an order that does not depend on the sender's.
std::vector<std::string_view> CookiesOf(const Headers& headers) {
  std::vector<std::string_view> cookies;
  for (const auto& [name, value] : headers) {
    if (EqualsIgnoreCase(name, "cookie")) AddCookies(value, cookies);
  }
  std::ranges::sort(cookies);
  return cookies;
}

// "bearer  x" as "Bearer x": schemes have no case (RFC 9110 11.1).
std::string WithPlainScheme(std::string_view value) {
  const auto blank = value.find(' ');
  if (blank == std::string_view::npos) return std::string(value);
  return ToLower(value.substr(0, blank)) + ' ' + std::string(TrimBlanks(value.substr(blank)));
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

// Of a field whose token was verified, with or without its scheme.
std::string VerifiedLabel(const std::string& value) {
  return JwtLabel(TrimBlanks(std::string_view(value).substr(value.find(' ') + 1))).value_or(value);
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

// Names and values as one text: in the order of the names, and of one name as they came.
class Fields {
 public:
  void Add(std::string name, std::string value) {
    const std::size_t place = found_.size();
    found_.push_back({std::move(name), place, std::move(value)});
  }
  std::string Text() {
    std::ranges::sort(found_);
    std::string text;
    for (const Field& field : found_) {
      AppendPart(text, field.name);
      AppendPart(text, field.value);
    }
    return text;
  }

 private:
  struct Field {
    std::string name;
    std::size_t place;
    std::string value;
    auto operator<=>(const Field&) const = default;
  };
  std::vector<Field> found_;
};

bool CountsBy(const PrincipalRule& rule, std::string_view name) {
  if (rule.with.empty() && rule.without.empty()) return IsPrincipalField(name);
  const std::string lower = ToLower(name);
  return Contains(rule.with, lower) || (IsPrincipalField(name) && !Contains(rule.without, lower));
}

// Name and value of every credential. `of_value` says what of a field counts.
template <class OfValue>
std::string Credentials(const PrincipalRule& rule, const Headers& headers, const Pairs& query,
                        OfValue of_value) {
  Fields found;
  for (const auto& [name, value] : headers) {
    if (EqualsIgnoreCase(name, "cookie") || !CountsBy(rule, name)) continue;
    found.Add(ToLower(name), of_value(name, value));
  }
  if (CountsBy(rule, "cookie")) {
    for (const std::string_view cookie : CookiesOf(headers)) {
      found.Add("cookie", std::string(cookie));
    }
  }
  for (const auto& [name, value] : query) {
    if (IsPrincipalParameter(name)) found.Add("?" + ToLower(name), value);
  }
  return found.Text();
}

}  // namespace

bool IsPrincipalField(std::string_view name) { return MeaningOf(name).is_principal; }

bool IsTenantField(std::string_view name) { return MeaningOf(name).is_tenant; }

bool IsPrincipalParameter(std::string_view name) {
  return Contains(kCredentialParameters, ToLower(name));
}

bool IsPrincipalCookie(std::string_view name) {
  const std::string lower = ToLower(name);
  const auto begins = [&](std::string_view plain) { return lower.starts_with(plain); };
  return !Contains(kPlainCookies, lower) && std::ranges::none_of(kPlainCookieBeginnings, begins);
}

Principal PrincipalOf(const HmacKey& secret, const std::string& caller, const PrincipalRule& rule,
                      const Headers& headers, const Pairs& query, std::string_view verified) {
  const std::string text =
      Credentials(rule, headers, query, [&](std::string_view name, const std::string& value) {
        const std::string plain =
            EqualsIgnoreCase(name, "authorization") ? WithPlainScheme(value) : value;
        return !verified.empty() && EqualsIgnoreCase(name, verified) ? VerifiedLabel(plain) : plain;
      });
  const Digest digest = secret.OfParts({kPrincipalVersion, caller, text});
  Principal principal = kNoPrincipal;
  std::memcpy(&principal, digest.data(), sizeof principal);
  return principal == kNoPrincipal ? 1 : principal;
}

std::string TenantsOf(const Headers& headers) {
  Fields found;
  for (const auto& [name, value] : headers) {
    if (IsTenantField(name)) found.Add(ToLower(name), value);
  }
  return found.Text();
}

std::string CredentialLabel(const PrincipalRule& rule, const Headers& headers, const Pairs& query) {
  return Credentials(rule, headers, query, [](std::string_view name, const std::string& value) {
    return EqualsIgnoreCase(name, "authorization") ? AuthorizationLabel(WithPlainScheme(value))
                                                   : value;
  });
}

std::vector<std::string> PrincipalNames(const PrincipalRule& rule, const Headers& headers,
                                        const Pairs& query) {
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    if (!EqualsIgnoreCase(name, "cookie") && CountsBy(rule, name)) {
      names.push_back("header " + name);
    }
  }
  const auto cookies = CountsBy(rule, "cookie") ? CookiesOf(headers) : CookiesOf({});
  for (const std::string_view cookie : cookies) {
    names.push_back("cookie " + std::string(cookie.substr(0, cookie.find('='))));
  }
  for (const auto& [name, value] : query) {
    if (IsPrincipalParameter(name)) names.push_back("query " + name);
  }
  return names;
}

}  // namespace recourse
