// Asks for tokens by client credentials, for the requests of one I/O thread.
#pragma once

#include <memory>

#include "filters/credentials/credentials.h"
#include "filters/credentials/token_cache.h"
#include "filters/upstream.h"

namespace recourse {

class TokenSource {
 public:
  // All outlive it, and every task of it. The cache is that of all threads.
  struct Parts {
    Upstream& upstream;
    TokenCache& cache;
    Executor& executor;
    const Clock& clock;
    ReadSecret read_secret;
  };
  explicit TokenSource(Parts parts) : parts_(std::move(parts)) {}

  // A token that holds now; while it is renewed the one before. Fails with a line for operators.
  Task<TokenCache::Token> Get(std::shared_ptr<const TokenRule> rule);

 private:
  Task<TokenCache::Token> Renew(std::shared_ptr<const TokenRule> rule);
  Task<void> RenewApart(std::shared_ptr<const TokenRule> rule);
  Task<std::expected<FetchedToken, std::string>> Fetch(const TokenRule& rule);

  const Parts parts_;
};

}  // namespace recourse
