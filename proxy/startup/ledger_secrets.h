// The secrets that a ledger stands on: the keys that seal what it stores, and the install secret
// that its operations' keys are made with.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "proxy/base/random.h"

namespace recourse {

class LedgerSecretFiles {
 public:
  // `key_file` empty: the key is DATA/ledger.key, made with the ledger. `install_file` empty: the
  // secret is DATA/install.secret, likewise.
  LedgerSecretFiles(std::string directory, std::string key_file, std::string install_file,
                    Random& random);

  // Whether the files that were named can be read; makes nothing. Fails with a line for people.
  std::expected<void, std::string> Judge() const;
  // For LmdbLedgerOptions::secrets: reads both, and makes what is missing while nothing depends on
  // it yet. Fails with a line for people.
  std::expected<LedgerSecrets, std::string> Load(const LedgerFacts& facts);
  // Reads the key file again. All or nothing; fails with a line for people. One thread at a time.
  std::expected<void, std::string> Reload();

  // After Load.
  const std::string& install_secret() const { return install_secret_; }
  // With it the keys of this process are made: where many groups have the install secret, each has
  // one of its own that is made of it.
  std::string KeySecretOf(Ledger& ledger) const;
  // Signs what names an operation by its number, which another ledger under the same secret has,
  // too.
  std::string SecretOf(Ledger& ledger) const;

 private:
  std::expected<KeyRing, std::string> ReadKeys() const;
  std::expected<std::string, std::string> ReadNamedSecret() const;

  const std::string directory_;
  const bool is_own_file_;  // made by us, beside the data
  const std::string key_file_, install_file_;
  Random& random_;
  std::shared_ptr<LedgerKeys> keys_;
  std::string install_secret_;
};

// Keys and what agents send are in this process's memory: from now on no core dump is written of
// it, and no other process of the same user can look into it.
void KeepMemoryPrivate();

}  // namespace recourse
