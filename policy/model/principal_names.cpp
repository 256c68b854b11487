// The words of a field's name, and what they make of it: whose the call is, or for which tenant.
#include <algorithm>
#include <array>
#include <span>

#include "policy/model/principal.h"
#include "proxy/base/http/field_reach.h"
#include "proxy/base/latest_texts.h"

namespace recourse {
namespace {

// Words of a field's name. One of them is enough.
constexpr std::string_view kCredentialWords[] = {
    "authorization", "auth",     "token",     "apikey",      "apitoken",     "secret",
    "credential",    "password", "passwd",    "credentials", "jwt",          "assertion",
    "bearer",        "key",      "pat",       "accesstoken", "sessiontoken", "principal",
    "oidc",          "session",  "sessionid", "signature",   "impersonate",  "impersonation",
    "sudo",          "user",     "userid",    "username",    "login",        "identity",
    "actor",         "runas",    "delegated", "subject",     "webauth"};
constexpr std::string_view kLaterCredentialWords[] = {"authentication",
                                                      "consumer",
                                                      "macaroon",
                                                      "macaroons",
                                                      "passcode",
                                                      "role",
                                                      "roles",
                                                      "uid",
                                                      "employee",
                                                      "operator",
                                                      "requester",
                                                      "requestor",
                                                      "viewer",
                                                      "visitor",
                                                      "guest",
                                                      "person",
                                                      "patient",
                                                      "caller",
                                                      "approver",
                                                      "owner",
                                                      "initiator",
                                                      "onbehalfof",
                                                      "behalf",
                                                      "actas",
                                                      "upn",
                                                      "msisdn",
                                                      "phone",
                                                      "email",
                                                      "group",
                                                      "groups",
                                                      "sub"};
// Two words, one behind the other.
constexpr std::array<std::string_view, 2> kCredentialPairs[] = {
    {"forwarded", "email"}, {"behalf", "of"}, {"act", "as"}, {"run", "as"},
    {"client", "cert"},     {"client", "id"}, {"s", "dn"},   {"client", "cn"}};
constexpr std::array<std::string_view, 2> kLaterCredentialPairs[] = {
    {"client", "dn"},    {"client", "serial"}, {"client", "fingerprint"}, {"select", "admin"},
    {"requested", "by"}, {"invoked", "by"},    {"acting", "as"}};
// Whatever stands before them in one part: each vendor has words of its own there.
constexpr std::string_view kCredentialEndings[] = {"token",    "secret",      "password",
                                                   "passcode", "credentials", "apikey"};
// Whole names without any of these words.
constexpr std::string_view kCredentialNames[] = {"cookie", "remote-email",     "x-email",
                                                 "from",   "x-honeycomb-team", "x-pin"};
// Of JFrog Artifactory; of Tenable Nessus.
constexpr std::string_view kLastCredentialNames[] = {"x-jfrog-art-api", "x-apikeys"};
// A field with one of these is none: it differs with every request, guards against forgery or
// repeats, or says what the client is.
constexpr std::string_view kNoCredentialWords[] = {"csrf",      "xsrf",  "idempotency", "recourse",
                                                   "timestamp", "nonce", "dpop"};
// The second word of these, or the first where it is the credential, is none.
constexpr std::array<std::string_view, 2> kNoCredentialPairs[] = {
    {"user", "agent"},    {"request", "token"},      {"request", "key"},   {"retry", "token"},
    {"client", "token"},  {"continuation", "token"}, {"form", "token"},    {"page", "token"},
    {"push", "token"},    {"antiforgery", "token"},  {"captcha", "token"}, {"recaptcha", "token"},
    {"websocket", "key"}, {"cache", "key"},          {"routing", "key"},   {"fetch", "user"},
    {"partition", "key"}, {"mcp", "session"}};
constexpr std::array<std::string_view, 2> kLaterNoCredentialPairs[] = {
    {"token", "count"},
    {"verification", "token"},
    {"requestverification", "token"},
    {"authenticity", "token"}};

// A parameter is mostly an argument, whoever it names: by fewer words than of a field it is a
// credential, or by what stands before "key".
constexpr std::string_view kParameterWords[] = {
    "authorization", "auth",     "token",       "apikey",       "apitoken",    "secret",
    "credential",    "password", "passwd",      "jwt",          "credentials", "bearer",
    "assertion",     "passcode", "accesstoken", "sessiontoken", "session",     "sessionid",
    "signature",     "sig",      "sid"};
constexpr std::string_view kParameterKeys[] = {"api",   "access",       "app",     "auth",
                                               "user",  "subscription", "master",  "private",
                                               "admin", "service",      "consumer"};
constexpr std::string_view kParameters[] = {"key", "awsaccesskeyid", "googleaccessid"};

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
constexpr std::string_view kLaterTenantWords[] = {"subdomain", "schema", "database", "catalog"};
// Of an application: Parse, Algolia, TravelTime; of a domain: Huawei Cloud, OpenStack. A region
// says where a call is served (Supabase), which may be elsewhere the next time.
constexpr std::array<std::string_view, 2> kTenantPairs[] = {
    {"entity", "id"}, {"entity", "ids"},   {"business", "id"},    {"location", "id"},
    {"branch", "id"}, {"site", "id"},      {"agency", "id"},      {"property", "id"},
    {"wallet", "id"}, {"portfolio", "id"}, {"application", "id"}, {"domain", "id"}};
constexpr std::string_view kTenantNames[] = {"stripe-context", "x-goog-user-project"};
constexpr std::string_view kLaterTenantNames[] = {"content-profile"};
// Of FIWARE's context brokers; which folder of a team is the root of all paths.
constexpr std::string_view kLastTenantNames[] = {"fiware-service", "fiware-servicepath",
                                                 "dropbox-api-path-root"};

// Those, and these, are told apart within a part: "merchantkey" is "merchant key".
constexpr std::string_view kJoinedWords[] = {
    "access", "admin",    "agency",  "api",       "app",     "application",
    "branch", "business", "client",  "count",     "dn",      "domain",
    "email",  "entity",   "id",      "ids",       "info",    "location",
    "master", "name",     "number",  "portfolio", "private", "property",
    "public", "request",  "service", "site",      "wallet",  "x"};
constexpr std::size_t kJoinedWordsMax = 4;

using Pair = std::array<std::string_view, 2>;

template <class List, class Item>
bool Contains(const List& list, const Item& item) {
  return std::ranges::find(list, item) != std::end(list);
}

struct Meaning {
  bool is_principal = false;
  bool is_tenant = false;
  bool is_parameter = false;  // of a principal, as the name of a query parameter
  bool is_unseen = false;     // it was dropped before anybody could read it
  bool operator==(const Meaning&) const = default;
};

template <class Predicate>
bool AnyWord(Predicate holds) {
  return std::ranges::any_of(kCredentialWords, holds) ||
         std::ranges::any_of(kLaterCredentialWords, holds) ||
         std::ranges::any_of(kTenantWords, holds) ||
         std::ranges::any_of(kLaterTenantWords, holds) || std::ranges::any_of(kJoinedWords, holds);
}

// The words that `text` is made of, put at `words`; how many, or 0: it is not made of so few.
std::size_t SplitJoined(std::string_view text, std::span<std::string_view> words) {
  if (words.empty()) return 0;
  std::size_t count = 0;
  AnyWord([&](std::string_view word) {
    if (!text.starts_with(word)) return false;
    const std::string_view rest = text.substr(word.size());
    const std::size_t more = rest.empty() ? 0 : SplitJoined(rest, words.subspan(1));
    if (!rest.empty() && more == 0) return false;
    words[0] = word;
    count = more + 1;
    return true;
  });
  return count;
}

// Takes the words of a name one by one.
class NameReader {
 public:
  explicit NameReader(FieldNames names) : is_now_(names != FieldNames::kEarlier) {}

  // What stands between two signs.
  void TakePart(std::string_view part) {
    const auto is_part = [part](std::string_view word) { return word == part; };
    if (!is_now_ || Contains(kNoCredentialWords, part) || AnyWord(is_part)) return TakeWord(part);
    std::array<std::string_view, kJoinedWordsMax> words;
    const std::size_t count = SplitJoined(part, words);
    for (std::size_t i = 0; i < count; ++i) TakeWord(words[i]);
    if (count > 0) return;
    for (const std::string_view ending : kCredentialEndings) {
      if (!part.ends_with(ending)) continue;
      part.remove_suffix(ending.size());
      TakeWord(part);
      return TakeWord(ending);
    }
    TakeWord(part);
  }

  Meaning End() {
    Judge({});
    const bool is_principal = is_principal_ && !is_none_;
    return {is_principal, is_tenant_ && !is_principal, is_parameter_ && !is_none_};
  }

 private:
  void TakeWord(std::string_view word) {
    Judge(word);
    before_ = last_;
    last_ = word;
  }

  // The last word, before `next`.
  void Judge(std::string_view next) {
    is_none_ = is_none_ || Contains(kNoCredentialWords, last_);
    if (IsVoid({before_, last_}) || IsVoid({last_, next})) {
      // A pair spoke for the whole name once.
      is_none_ = is_none_ || !is_now_;
      return;
    }
    const Pair pair = {before_, last_};
    is_principal_ =
        is_principal_ || Contains(kCredentialWords, last_) || Contains(kCredentialPairs, pair) ||
        (is_now_ &&
         (Contains(kLaterCredentialWords, last_) || Contains(kLaterCredentialPairs, pair)));
    is_parameter_ = is_parameter_ || Contains(kParameterWords, last_) ||
                    (last_ == "key" && Contains(kParameterKeys, before_));
    is_tenant_ = is_tenant_ || Contains(kTenantWords, last_) ||
                 (is_now_ && (Contains(kLaterTenantWords, last_) || Contains(kTenantPairs, pair)));
  }

  bool IsVoid(const Pair& pair) const {
    return Contains(kNoCredentialPairs, pair) ||
           (is_now_ && Contains(kLaterNoCredentialPairs, pair));
  }

  const bool is_now_;
  bool is_none_ = false, is_principal_ = false, is_tenant_ = false, is_parameter_ = false;
  std::string_view before_, last_;
};

// Of a name in lower case.
Meaning MeaningOfLower(std::string_view name, FieldNames names) {
  const bool is_now = names == FieldNames::kNow;
  const bool is_later = names != FieldNames::kEarlier && Contains(kLaterTenantNames, name);
  const bool is_last = is_now && Contains(kLastTenantNames, name);
  if (is_last || is_later || Contains(kTenantNames, name)) return {.is_tenant = true};
  const bool is_last_credential = is_now && Contains(kLastCredentialNames, name);
  if (is_last_credential || Contains(kCredentialNames, name)) return {.is_principal = true};
  NameReader reader(names);
  while (!name.empty()) {
    const auto end = std::min(name.find_first_of("-_."), name.size());
    reader.TakePart(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return reader.End();
}

struct Meanings {
  Meaning now, before, earlier;
};

Meanings MeaningsOf(std::string_view name) {
  const std::string lower = ToLower(name);
  if (ReachOf(lower) == FieldReach::kPolicy) {
    return {MeaningOfLower(lower, FieldNames::kNow), {.is_unseen = true}, {.is_unseen = true}};
  }
  return {MeaningOfLower(lower, FieldNames::kNow), MeaningOfLower(lower, FieldNames::kBefore),
          MeaningOfLower(lower, FieldNames::kEarlier)};
}

Meanings AllMeaningsOf(std::string_view name) {
  constexpr std::size_t kNameBytes = 61, kNames = 128;
  return LatestOf<MeaningsOf, kNameBytes, kNames>(name);
}

Meaning MeaningOf(std::string_view name, FieldNames names) {
  const Meanings meanings = AllMeaningsOf(name);
  switch (names) {
    case FieldNames::kNow:
      return meanings.now;
    case FieldNames::kBefore:
      return meanings.before;
    case FieldNames::kEarlier:
      break;
  }
  return meanings.earlier;
}

}  // namespace

bool IsPrincipalField(std::string_view name, FieldNames names) {
  return MeaningOf(name, names).is_principal;
}

bool IsTenantField(std::string_view name, FieldNames names) {
  return MeaningOf(name, names).is_tenant;
}

bool IsReadAlike(std::string_view name) {
  const Meanings meanings = AllMeaningsOf(name);
  return meanings.now == meanings.before && meanings.now == meanings.earlier;
}

bool IsPrincipalParameter(std::string_view name) {
  return MeaningOf(name, FieldNames::kNow).is_parameter || Contains(kParameters, ToLower(name));
}

bool IsPrincipalCookie(std::string_view name) {
  const std::string lower = ToLower(name);
  const auto begins = [&](std::string_view plain) { return lower.starts_with(plain); };
  return !Contains(kPlainCookies, lower) && std::ranges::none_of(kPlainCookieBeginnings, begins);
}

}  // namespace recourse
