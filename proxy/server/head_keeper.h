// Signs the head of the ledger's hash chain every so often, for a file and for the webhook.
#pragma once

#include <functional>
#include <string>

#include "filters/ledger/ledger.h"
#include "proxy/base/clock.h"
#include "proxy/base/ed25519.h"
#include "proxy/server/config.h"

namespace recourse {

// One thread at a time, which may block on the file.
class HeadKeeper {
 public:
  // Does nothing without --ledger-head-key. Throws StartupError when the key cannot be used.
  HeadKeeper(const Config& config, Ledger& ledger, const Clock& clock);

  // Called with each signed head, as JSON. Set before the first Look().
  void TellTo(std::function<void(std::string news)> tell) { tell_ = std::move(tell); }
  // Signs when it is time.
  void Look();
  // Signs now: the process ends, and nobody else writes to the ledger.
  void Finish();

 private:
  void Keep();

  const std::string file_;  // empty: none
  const Millis every_;
  Ledger& ledger_;
  const Clock& clock_;
  EvpKeyPtr key_;  // null: there is nothing to do
  std::function<void(std::string)> tell_;
  MonoTime due_{};
  bool has_failed_ = false;  // the last time, which the log told
};

}  // namespace recourse
