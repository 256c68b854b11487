// Signs the head of the ledger's hash chain every so often, for a file and for the webhook.
#pragma once

#include <functional>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/audit.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/ed25519.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/startup/signed_head.h"

namespace recourse {

// The key of --ledger-head-key; null without one. Throws StartupError when it cannot be used.
KeyPtr HeadKeyOrThrow(const std::string& path);

// One thread at a time, which may block on the files. A head in the file that speaks against the
// ledger is the proof that the ledger was put back, cut or rewritten: it is left as it is.
class LedgerHeadSigner {
 public:
  // Does nothing without a key.
  LedgerHeadSigner(const Config& config, KeyPtr key, Ledger& ledger, const Clock& clock);

  // Called with each signed head, as JSON. Set before the first Look().
  void TellTo(std::function<void(std::string news)> tell) { tell_ = std::move(tell); }
  // Signs when it is time, which due() tells.
  void Look();
  MonoTime due() const { return key_ == nullptr ? MonoTime::max() : due_; }
  // Signs now: the process ends, and nobody else writes to the ledger.
  void Finish();

 private:
  void Keep();
  FileResult<void> KeepInFile(const LedgerStats& stats, const SignedHead& head);
  // What the head that was signed before says against the ledger; empty: nothing.
  FileResult<std::string> Objection(const LedgerStats& stats) const;
  FileResult<std::string> Compare(const LedgerStats& stats, const SignedHead& kept) const;
  void Tell(const FileResult<void>& kept);

  const std::string file_;  // empty: none
  const Millis every_;
  Ledger& ledger_;
  LedgerAuditor* const auditor_;  // null: the ledger could not be opened
  const Clock& clock_;
  KeyPtr key_;  // null: there is nothing to do
  std::function<void(std::string)> tell_;
  MonoTime due_{};
  bool may_replace_ = false;  // the file was compared: from now on all of it is of this process
  std::string told_;          // why it failed the last time, as the log told it; empty: it did not
};

}  // namespace recourse
