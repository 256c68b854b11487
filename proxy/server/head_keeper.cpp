#include "proxy/server/head_keeper.h"

#include <utility>

#include "proxy/base/log.h"
#include "proxy/server/event_json.h"
#include "proxy/server/files.h"
#include "proxy/server/signed_head.h"
#include "proxy/server/startup.h"

namespace recourse {
namespace {

constexpr std::size_t kKeyFileBytesMax = 4'096;

EvpKeyPtr KeyOrThrow(const std::string& path) {
  if (path.empty()) return nullptr;
  const auto pem = ReadPrivateFile(path, kKeyFileBytesMax);
  if (!pem) throw StartupError(kExitUsage, "--ledger-head-key: " + pem.error());
  auto key = ReadSigningKey(*pem);
  if (!key) throw StartupError(kExitUsage, "--ledger-head-key: " + path + " " + key.error());
  return std::move(*key);
}

}  // namespace

HeadKeeper::HeadKeeper(const Config& config, Ledger& ledger, const Clock& clock)
    : file_(config.ledger_head_file),
      every_(config.ledger_head_every),
      ledger_(ledger),
      clock_(clock),
      key_(KeyOrThrow(config.ledger_head_key)) {}

void HeadKeeper::Look() {
  if (clock_.Now() < due_) return;
  due_ = clock_.Now() + every_;
  Keep();
}

void HeadKeeper::Finish() { Keep(); }

void HeadKeeper::Keep() {
  if (key_ == nullptr) return;
  const LedgerStats stats = ledger_.Stats();
  if (!stats.not_opened.empty() || stats.last_id == 0) return;
  SignedHead head{.ledger = stats.identity,
                  .row = stats.last_id,
                  .hash = stats.head,
                  .time = Rfc3339Millis(ToUnixMillis(clock_.WallNow())),
                  .signature = {}};
  FileResult<void> kept;
  if (!Sign(*key_, head)) {
    kept = std::unexpected("OpenSSL cannot sign it");
  } else if (!file_.empty()) {
    kept = WriteFileAtomically(file_, ToJson(head) + "\n");
  }
  if (!kept && !std::exchange(has_failed_, true)) {
    Log(LogLevel::kError, "the signed head of the ledger cannot be kept; it is tried again",
        {{"file", file_}, {"reason", kept.error()}});
  }
  if (kept && std::exchange(has_failed_, false)) {
    Log(LogLevel::kInfo, "the signed head of the ledger is kept again", {{"file", file_}});
  }
  if (tell_ && !head.signature.empty()) tell_(ToJson(head));
}

}  // namespace recourse
