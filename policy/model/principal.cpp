#include "policy/model/principal.h"

#include <algorithm>
#include <compare>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "proxy/base/crypto/base64url.h"
#include "proxy/base/http/field_reach.h"
#include "proxy/base/json/json.h"

namespace recourse {
namespace {

constexpr std::string_view kPrincipalVersion = "recourse-principal-1";

// Of two with one name servers take the first, or the last: they stay as they came.
struct Cookie {
  std::string_view name;  // with the '=' behind it, if there is one
  std::size_t place;
  std::string_view text;
  auto operator<=>(const Cookie&) const = default;
};

// Adds the cookies that are credentials.
void AddCookies(std::string_view field, std::vector<Cookie>& cookies) {
  while (!field.empty()) {
    const auto end = std::min(field.find(';'), field.size());
    const std::string_view text = TrimBlanks(field.substr(0, end));
    field.remove_prefix(std::min(end + 1, field.size()));
    const auto equals = std::min(text.find('='), text.size());
    if (text.empty() || !IsPrincipalCookie(text.substr(0, equals))) continue;
    cookies.push_back({text.substr(0, equals + 1), cookies.size(), text});
  }
}

// Of all Cookie fields, in an order of names that does not depend on the sender's.
std::vector<Cookie> CookiesOf(const Headers& headers) {
  std::vector<Cookie> cookies;
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
  std::string plain = ToLower(value.substr(0, blank));
  return plain.append(1, ' ').append(TrimBlanks(value.substr(blank)));
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

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(
      names, [name](std::string_view each) { return EqualsIgnoreCase(each, name); });
}

// Of Envoy's X-Forwarded-Client-Cert: who the clients are, each of them without what a renewed
// certificate has another one of. Of one that has no name, all of it.
std::string ClientsOf(std::string_view value) {
  std::string clients, with_name, whole;  // all, and of the one that is read
  bool is_named = false, is_quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const char c = i < value.size() ? value[i] : ',';
    if (c == '"' && (i == 0 || value[i - 1] != '\\')) is_quoted = !is_quoted;
    if (i < value.size() && (is_quoted || (c != ';' && c != ','))) continue;
    const std::string_view pair = TrimBlanks(value.substr(begin, i - begin));
    begin = i + 1;
    const std::string_view key = pair.substr(0, pair.find('='));
    AppendPart(whole, pair);
    if (!IsOneOf(key, {"Hash", "Cert", "Chain"})) AppendPart(with_name, pair);
    const std::string_view name = Behind(pair, "=");
    is_named =
        is_named || (IsOneOf(key, {"Subject", "URI", "DNS"}) && !name.empty() && name != "\"\"");
    if (c != ',') continue;
    AppendPart(clients, is_named ? with_name : whole);
    with_name.clear();
    whole.clear();
    is_named = false;
  }
  return clients;
}

// What of a field that a proxy wrote stays the same for one client.
std::string ForwardedLabel(std::string_view name, const std::string& value) {
  if (EqualsIgnoreCase(name, "x-forwarded-client-cert")) return ClientsOf(value);
  if (EqualsIgnoreCase(name, "x-forwarded-access-token")) return JwtLabel(value).value_or(value);
  return value;
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

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

bool CountsBy(const PrincipalRule& rule, std::string_view name,
              FieldNames names = FieldNames::kNow) {
  const bool is_principal = IsPrincipalField(name, names);
  if (rule.with.empty() && rule.without.empty()) return is_principal;
  const std::string lower = ToLower(name);
  if (is_principal && !Contains(rule.without, lower)) return true;
  const bool was_seen = names == FieldNames::kNow || ReachOf(name) == FieldReach::kBackend;
  return was_seen && Contains(rule.with, lower);
}

// Name and value of every credential. `of_value` says what of a field counts.
template <class OfValue>
std::string Credentials(const PrincipalRule& rule, const Headers& headers, const Pairs& query,
                        FieldNames names, OfValue of_value) {
  Fields found;
  for (const auto& [name, value] : headers) {
    if (EqualsIgnoreCase(name, "cookie") || !CountsBy(rule, name, names)) continue;
    found.Add(ToLower(name), of_value(name, value));
  }
  if (CountsBy(rule, "cookie")) {
    for (const Cookie& cookie : CookiesOf(headers)) {
      found.Add("cookie", std::string(cookie.text));
    }
  }
  for (const auto& [name, value] : query) {
    if (IsPrincipalParameter(name)) found.Add("?" + ToLower(name), value);
  }
  return found.Text();
}

}  // namespace

Principal PrincipalOf(const HmacKey& secret, const std::string& caller, const PrincipalRule& rule,
                      const Headers& headers, const Pairs& query, std::string_view verified,
                      FieldNames names) {
  const std::string text = Credentials(
      rule, headers, query, names, [&](std::string_view name, const std::string& value) {
        if (EqualsIgnoreCase(name, "x-forwarded-client-cert")) return ClientsOf(value);
        const std::string plain =
            EqualsIgnoreCase(name, "authorization") ? WithPlainScheme(value) : value;
        return !verified.empty() && EqualsIgnoreCase(name, verified) ? VerifiedLabel(plain) : plain;
      });
  const Digest digest = secret.OfUsualParts({kPrincipalVersion, caller, text});
  Principal principal = kNoPrincipal;
  std::memcpy(&principal, digest.data(), sizeof principal);
  return principal == kNoPrincipal ? 1 : principal;
}

std::string TenantsOf(const Headers& headers, FieldNames names) {
  Fields found;
  for (const auto& [name, value] : headers) {
    if (IsTenantField(name, names)) found.Add(ToLower(name), value);
  }
  return found.Text();
}

std::string CredentialLabel(const PrincipalRule& rule, const Headers& headers, const Pairs& query,
                            FieldNames names) {
  return Credentials(
      rule, headers, query, names, [](std::string_view name, const std::string& value) {
        return EqualsIgnoreCase(name, "authorization") ? AuthorizationLabel(WithPlainScheme(value))
                                                       : ForwardedLabel(name, value);
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
  for (const Cookie& cookie : cookies) {
    names.push_back("cookie " + std::string(cookie.text.substr(0, cookie.text.find('='))));
  }
  for (const auto& [name, value] : query) {
    if (IsPrincipalParameter(name)) names.push_back("query " + name);
  }
  return names;
}

}  // namespace recourse
