// Where an issuer's keys come from: a file that was read, or a URL that is asked now and then.
#pragma once

#include <condition_variable>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "proxy/base/clock.h"
#include "proxy/base/crypto/jwt.h"

namespace recourse {

// Thread-safe.
class KeySource {
 public:
  virtual ~KeySource() = default;
  enum class Lack : std::uint8_t {
    kUnknown,  // the issuer has no such key
    kNotRead,  // nobody can say: its keys have not been read
  };
  // The key that `jwt` names.
  virtual std::expected<Jwk, Lack> Find(const Jwt& jwt) = 0;
};

std::shared_ptr<KeySource> MakeFileKeys(JwkSet keys);

// Keys from a URL, read on a thread of its own: at once, every kJwksRefresh, and for a key that is
// not known, at most every kJwksSpacing. What was read last is used until something else was.
class UrlKeys final : public KeySource {
 public:
  // The text of the JWKS, or why there is none; may block for kJwksTimeout. Called on the thread.
  using Fetch = std::function<std::expected<std::string, std::string>()>;

  UrlKeys(std::string url, Fetch fetch, const Clock& clock);
  ~UrlKeys() override;  // waits for a fetch at work
  UrlKeys(const UrlKeys&) = delete;
  UrlKeys& operator=(const UrlKeys&) = delete;

  // Waits up to kJwksWait for a reading that may bring the key, once for each reading: a slow
  // issuer cannot hold up the admin port again and again.
  std::expected<Jwk, Lack> Find(const Jwt& jwt) override;

 private:
  void Run();
  void Take(const std::expected<std::string, std::string>& text);
  std::optional<Jwk> Known(const Jwt& jwt) const;
  bool WillRead();

  const std::string url_;
  const Fetch fetch_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::shared_ptr<const JwkSet> keys_;  // null: never read
  bool is_reading_ = true;              // from the start on
  bool is_wanted_ = false;
  bool is_waited_for_ = false;  // somebody has waited for the reading at work
  bool stop_ = false;
  std::uint64_t readings_ = 0;
  std::optional<MonoTime> asked_;  // when a key that was not known last caused a reading
  Millis pause_{};                 // until the next one that nobody asks for
  std::thread thread_;
};

}  // namespace recourse
