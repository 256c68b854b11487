#include "filters/credentials/token_source.h"

#include <utility>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {

Task<TokenCache::Token> TokenSource::Get(std::shared_ptr<const TokenRule> rule) {
  const auto told = std::make_shared<Promise<TokenCache::Token>>();
  auto look = parts_.cache.At(NameOfToken(*rule), parts_.clock.Now(), parts_.executor, told);
  if (look.fetches && !look.known) co_return co_await Renew(std::move(rule));
  if (look.fetches) Spawn(RenewApart(std::move(rule)), [] {});
  if (look.known) co_return std::move(*look.known);
  co_return co_await told->Wait();
}

// Nobody waits for it: the one before still holds.
Task<void> TokenSource::RenewApart(std::shared_ptr<const TokenRule> rule) {
  (void)co_await Renew(std::move(rule));
}

Task<TokenCache::Token> TokenSource::Renew(std::shared_ptr<const TokenRule> rule) {
  const auto fetched = co_await Fetch(*rule);
  parts_.cache.Put(NameOfToken(*rule), fetched, parts_.clock.Now());
  if (fetched) co_return fetched->text;
  Log(LogLevel::kError, "a token could not be had",
      {{"endpoint", rule->backend.authority}, {"reason", fetched.error()}});
  co_return std::unexpected(fetched.error());
}

Task<std::expected<FetchedToken, std::string>> TokenSource::Fetch(const TokenRule& rule) {
  using Fetched = std::expected<FetchedToken, std::string>;
  const auto secret = parts_.read_secret(rule.secret_file);
  if (!secret) co_return Fetched(std::unexpected(secret.error()));
  const HttpRequest request = TokenRequest(rule, *secret);
  const auto connection = parts_.upstream.Open(rule.backend);
  const Result<void> connected = co_await connection->Connected();
  const auto failed = [](const Error& error) {
    return Fetched(std::unexpected("its token endpoint: " + std::string(error.detail())));
  };
  if (!connected) co_return failed(connected.error());
  const auto answer = co_await connection->Exchange(
      request, parts_.clock.Now() + limits::kProbeTimeout, limits::kTokenAnswerBytesMax);
  if (!answer) co_return failed(answer.error());
  co_return ReadToken(answer->response);
}

}  // namespace recourse
