#include "proxy/admin/access/key_source.h"

#include <utility>

#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

class FileKeys final : public KeySource {
 public:
  explicit FileKeys(JwkSet keys) : keys_(std::move(keys)) {}
  std::expected<Jwk, Lack> Find(const Jwt& jwt) override {
    const Jwk* const key = FindKey(keys_, jwt);
    if (key == nullptr) return std::unexpected(Lack::kUnknown);
    return *key;
  }

 private:
  const JwkSet keys_;
};

}  // namespace

std::shared_ptr<KeySource> MakeFileKeys(JwkSet keys) {
  return std::make_shared<FileKeys>(std::move(keys));
}

UrlKeys::UrlKeys(std::string url, Fetch fetch, const Clock& clock)
    : url_(std::move(url)), fetch_(std::move(fetch)), clock_(clock), thread_([this] { Run(); }) {}

UrlKeys::~UrlKeys() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void UrlKeys::Run() {
  NameThread("recourse-keys");
  for (;;) {
    const auto text = fetch_();  // without the lock: it takes as long as the issuer likes
    std::unique_lock lock(mutex_);
    Take(text);
    changed_.notify_all();
    changed_.wait_for(lock, pause_, [this] { return stop_ || is_wanted_; });
    if (stop_) return;
    is_reading_ = true;
    is_wanted_ = false;
  }
}

void UrlKeys::Take(const std::expected<std::string, std::string>& text) {
  is_reading_ = is_waited_for_ = false;
  ++readings_;
  auto keys = text ? ParseJwks(*text) : std::unexpected(text.error());
  if (keys) {
    keys_ = std::make_shared<const JwkSet>(std::move(*keys));
    pause_ = limits::kJwksRefresh;
    return;
  }
  pause_ = limits::kJwksRetry;
  Log(LogLevel::kError,
      keys_ == nullptr ? "the issuer's keys cannot be read: nobody can log in with its tokens"
                       : "the issuer's keys cannot be read: those of before are used",
      {{"url", url_}, {"reason", keys.error()}});
}

std::optional<Jwk> UrlKeys::Known(const Jwt& jwt) const {
  const Jwk* const key = keys_ == nullptr ? nullptr : FindKey(*keys_, jwt);
  return key == nullptr ? std::nullopt : std::optional<Jwk>(*key);
}

// Whether a reading is at work, or may be asked for now; then it is.
bool UrlKeys::WillRead() {
  if (is_reading_ || is_wanted_) return true;
  const MonoTime now = clock_.Now();
  if (asked_ && now - *asked_ < limits::kJwksSpacing) return false;
  asked_ = now;
  is_wanted_ = true;
  changed_.notify_all();
  return true;
}

std::expected<Jwk, KeySource::Lack> UrlKeys::Find(const Jwt& jwt) {
  std::unique_lock lock(mutex_);
  if (auto key = Known(jwt)) return std::move(*key);
  if (WillRead() && !is_waited_for_) {
    is_waited_for_ = true;
    const std::uint64_t before = readings_;
    changed_.wait_for(lock, limits::kJwksWait, [&] { return readings_ != before || stop_; });
    if (auto key = Known(jwt)) return std::move(*key);
  }
  return std::unexpected(keys_ == nullptr ? Lack::kNotRead : Lack::kUnknown);
}

}  // namespace recourse
