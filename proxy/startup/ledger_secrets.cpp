#include "proxy/startup/ledger_secrets.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "filters/ledger/shared_view.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/config/files.h"

namespace recourse {
namespace {

constexpr char kOwnKeyFile[] = "/ledger.key";
constexpr std::size_t kInstallIdHexDigits = 16;

// Says which secret it is and nothing about it.
std::string InstallId(const std::string& secret) {
  return ToHex(HmacSha256(secret, "recourse-install-id-1")).substr(0, kInstallIdHexDigits);
}

std::expected<void, std::string> MakeOwnKey(const std::string& path, const LedgerFacts& facts,
                                            Random& random) {
  if (facts.sealed_with) {
    return std::unexpected(fmt::format(
        "{} is missing, and the ledger beside it is sealed with key {}; restore it from the same "
        "backup as the ledger, or name the file that has the key with --ledger-key-file",
        path, ToText(*facts.sealed_with)));
  }
  std::string line = NewKeyLine("local-1", random);
  auto written = WriteFileAtomically(path, line);
  Wipe(line);
  return written;
}

}  // namespace

LedgerSecretFiles::LedgerSecretFiles(std::string directory, std::string key_file,
                                     std::string install_file, Random& random)
    : directory_(std::move(directory)),
      is_own_file_(key_file.empty()),
      key_file_(is_own_file_ ? directory_ + kOwnKeyFile : std::move(key_file)),
      install_file_(std::move(install_file)),
      random_(random) {}

std::expected<void, std::string> LedgerSecretFiles::Judge() const {
  if (!is_own_file_) {
    if (const auto ring = ReadKeys(); !ring) return std::unexpected(ring.error());
  }
  if (install_file_.empty()) return {};
  const auto secret = ReadNamedSecret();
  return secret ? std::expected<void, std::string>() : std::unexpected(secret.error());
}

std::expected<LedgerSecrets, std::string> LedgerSecretFiles::Load(const LedgerFacts& facts) {
  if (is_own_file_ && ::access(key_file_.c_str(), F_OK) != 0) {
    if (auto made = MakeOwnKey(key_file_, facts, random_); !made) {
      return std::unexpected(made.error());
    }
  }
  auto ring = ReadKeys();
  if (!ring) return std::unexpected(ring.error());
  if (facts.sealed_with && ring->Find(facts.sealed_with->check) == nullptr) {
    Log(LogLevel::kError,
        "the ledger's newest event is sealed with a key that the key file lacks: repeats of such "
        "calls are told that their answer cannot be read; put the key's line back",
        {{"key", ToText(*facts.sealed_with)}, {"file", key_file_}});
  }
  auto secret = install_file_.empty()
                    ? LoadOrCreateInstallSecret(directory_, facts.has_events, random_)
                    : ReadNamedSecret();
  if (!secret) return std::unexpected(secret.error());
  install_secret_ = std::move(*secret);
  if (is_own_file_) {
    Log(LogLevel::kWarn,
        "the key that seals stored answers lies beside them: who copies the data directory can "
        "read them; mount a key and name it with --ledger-key-file",
        {{"file", key_file_}});
  }
  Log(LogLevel::kInfo, "stored requests and answers are sealed",
      {{"key", ToText(ring->sealing().name)}, {"keys", std::to_string(ring->size())}});
  keys_ = std::make_shared<LedgerKeys>(std::move(*ring), random_);
  return LedgerSecrets{keys_, InstallId(install_secret_)};
}

std::string LedgerSecretFiles::KeySecretOf(Ledger& ledger) const {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&ledger);
  if (shared == nullptr || shared->HasSharedSecret()) return install_secret_;
  return std::string(AsView(HmacSha256(install_secret_, "recourse-group-1" + shared->Group())));
}

std::string LedgerSecretFiles::SecretOf(Ledger& ledger) const {
  // Of one ledger alone it stays what earlier versions signed with.
  if (install_file_.empty()) return install_secret_;
  const std::string identity = ToHex(ledger.Stats().identity);
  return std::string(AsView(HmacSha256(KeySecretOf(ledger), "recourse-ledger-1" + identity)));
}

std::expected<void, std::string> LedgerSecretFiles::Reload() {
  if (keys_ == nullptr) return std::unexpected("the ledger is not open; restart to open it");
  auto ring = ReadKeys();
  if (!ring) return std::unexpected(ring.error());
  const std::string name = ToText(ring->sealing().name);
  if (auto replaced = keys_->Replace(std::move(*ring)); !replaced) {
    return std::unexpected(fmt::format("{}: {}", key_file_, replaced.error()));
  }
  Log(LogLevel::kInfo, "ledger keys read again", {{"key", name}, {"file", key_file_}});
  return {};
}

std::expected<KeyRing, std::string> LedgerSecretFiles::ReadKeys() const {
  auto text = ReadPrivateFile(key_file_, limits::kKeyFileBytesMax);
  const std::string flag = is_own_file_ ? "" : "--ledger-key-file: ";
  if (!text) {
    const bool is_missing = !is_own_file_ && ::access(key_file_.c_str(), F_OK) != 0;
    return std::unexpected(
        flag + text.error() +
        (is_missing ? "; `recourse ledger new-key` prints the line of a first one" : ""));
  }
  auto ring = KeyRing::Parse(*text);
  Wipe(*text);
  if (!ring) return std::unexpected(fmt::format("{}{}: {}", flag, key_file_, ring.error()));
  return ring;
}

std::expected<std::string, std::string> LedgerSecretFiles::ReadNamedSecret() const {
  auto secret = ReadInstallSecret(install_file_);
  if (!secret) return std::unexpected("--install-secret-file: " + secret.error());
  return secret;
}

void KeepMemoryPrivate() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0);
}

}  // namespace recourse
