// Tokens that are asked for by client credentials (RFC 6749 4.4): one for all threads, renewed
// before its end, and asked for once however many calls wait for it.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/credentials/spent_secrets.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/task.h"

namespace recourse {

namespace limits {
inline constexpr std::size_t kTokenAnswerBytesMax = 64 * 1024;
inline constexpr std::size_t kTokenBytesMax = 16 * 1024;
// Of a token whose endpoint says nothing of it, and at most.
inline constexpr Millis kTokenLife{5 * 60'000};
inline constexpr Millis kTokenLifeMax{24LL * 3'600'000};
inline constexpr Millis kTokenAgainFirst{1'000};
inline constexpr Millis kTokenAgainMax{60'000};
}  // namespace limits

// What asks for one. `secret` is the client's.
HttpRequest TokenRequest(const TokenRule& rule, const std::string& secret);

struct FetchedToken {
  std::string text;
  Millis life{};
};
// Fails with a line for operators, which has nothing of the answer's body.
std::expected<FetchedToken, std::string> ReadToken(const HttpResponse& answer);

// Tells the tokens of one rule from all others.
std::string NameOfToken(const TokenRule& rule);

// Thread-safe. Does no I/O: whoever is told to fetches, and says what came of it.
class TokenCache {
 public:
  using Token = std::expected<std::string, std::string>;
  using Told = std::shared_ptr<Promise<Token>>;

  struct Look {
    std::optional<Token> known;  // what holds now: a token, or why there is none for a while
    bool fetches = false;        // whoever looked is to fetch one, and to Put() it
  };
  // With neither `told` is set on its executor's thread once the fetch that runs has ended.
  Look At(const std::string& name, MonoTime now, Executor& executor, const Told& told);
  void Put(const std::string& name, const std::expected<FetchedToken, std::string>& fetched,
           MonoTime now);

  // Tokens by the names of their rules, and what files have held.
  SpentSecrets& spent() { return spent_; }

 private:
  struct Entry {
    std::string token;
    MonoTime renew_at{}, ends_at{};
    MonoTime next_try{};
    int failures = 0;
    std::string why;  // the last one
    bool is_fetching = false;
    std::vector<std::pair<Executor*, Told>> waiting;
  };

  SpentSecrets spent_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace recourse
