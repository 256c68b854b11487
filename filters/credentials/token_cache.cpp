#include "filters/credentials/token_cache.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "proxy/base/backoff.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json.h"
#include "proxy/base/post_job.h"

namespace recourse {
namespace {

// A tenth of its life is left for the renewal, at least this much.
constexpr Millis kRenewEarly{5'000};

std::string FormField(std::string_view name, std::string_view value) {
  return std::string(name) + '=' + PercentEncode(value);
}

Millis LifeOf(const Json& answer) {
  const std::string text = ScalarText(answer, "expires_in");
  std::int64_t seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || text.empty()) return limits::kTokenLife;
  seconds = std::clamp<std::int64_t>(seconds, 1, limits::kTokenLifeMax.count() / 1'000);
  return Millis(seconds * 1'000);
}

}  // namespace

HttpRequest TokenRequest(const TokenRule& rule, const std::string& secret) {
  HttpRequest request;
  request.method = "POST";
  request.target = rule.backend.base_path.empty() ? "/" : rule.backend.base_path;
  request.body = FormField("grant_type", "client_credentials");
  if (!rule.scope.empty()) request.body += '&' + FormField("scope", rule.scope);
  if (!rule.audience.empty()) request.body += '&' + FormField("audience", rule.audience);
  // RFC 6749 2.3.1: each is form-encoded first.
  const std::string pair = PercentEncode(rule.client_id) + ':' + PercentEncode(secret);
  request.headers = {{"Authorization", "Basic " + ToBase64(pair)},
                     {"Content-Type", "application/x-www-form-urlencoded"},
                     {"Accept", "application/json"},
                     {"Accept-Encoding", "identity"}};
  return request;
}

std::expected<FetchedToken, std::string> ReadToken(const HttpResponse& answer) {
  if (!IsSuccess(answer.status)) {
    return std::unexpected("its token endpoint answered " + std::to_string(answer.status));
  }
  const auto json = ParseJson(answer.body);
  FetchedToken token;
  if (json) token.text = TextOf(*json, "access_token");
  if (token.text.empty() || token.text.size() > limits::kTokenBytesMax ||
      !IsFieldValue(token.text)) {
    return std::unexpected("the answer of its token endpoint has no access_token that can be sent");
  }
  token.life = LifeOf(*json);
  return token;
}

std::string NameOfToken(const TokenRule& rule) {
  std::string name;
  for (const std::string& word :
       {rule.backend.scheme, rule.backend.authority, rule.backend.base_path, rule.client_id,
        rule.secret_file, rule.scope, rule.audience}) {
    AppendPart(name, word);
  }
  return name;
}

TokenCache::Look TokenCache::At(const std::string& name, MonoTime now, Executor& executor,
                                const Told& told) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  Look look;
  const bool is_due = entry.token.empty() || now >= entry.renew_at;
  look.fetches = is_due && !entry.is_fetching && now >= entry.next_try;
  entry.is_fetching = entry.is_fetching || look.fetches;
  if (!entry.token.empty() && now < entry.ends_at) {
    look.known = entry.token;
  } else if (!entry.is_fetching) {
    look.known = std::unexpected(entry.why);
  } else if (!look.fetches) {
    entry.waiting.emplace_back(&executor, told);
  }
  return look;
}

void TokenCache::Put(const std::string& name,
                     const std::expected<FetchedToken, std::string>& fetched, MonoTime now) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  entry.is_fetching = false;
  if (fetched) {
    spent_.Note(name, fetched->text);
    entry.token = fetched->text;
    entry.ends_at = now + fetched->life;
    entry.renew_at = entry.ends_at - std::max(fetched->life / 10, kRenewEarly);
    entry.failures = 0;
    entry.next_try = now + limits::kTokenAgainFirst;
  } else {
    entry.why = fetched.error();
    entry.next_try =
        now + BackoffBound({limits::kTokenAgainFirst, limits::kTokenAgainMax}, ++entry.failures);
  }
  const Token token = fetched ? Token(fetched->text) : Token(std::unexpected(entry.why));
  for (auto& [executor, told] : std::exchange(entry.waiting, {})) {
    PostJob(*executor, [waiter = std::move(told), token] { waiter->Set(token); });
  }
}

}  // namespace recourse
