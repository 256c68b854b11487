#include "proxy/process/ledger_head_signer.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/base/log/log.h"
#include "proxy/startup/startup.h"

namespace recourse {
namespace {

constexpr std::size_t kKeyFileBytesMax = 4'096;
constexpr std::size_t kKeptFileBytesMax = std::size_t{1} << 20;

}  // namespace

KeyPtr HeadKeyOrThrow(const std::string& path) {
  if (path.empty()) return nullptr;
  const auto pem = ReadPrivateFile(path, kKeyFileBytesMax);
  if (!pem) throw StartupError(kExitUsage, "--ledger-head-key: " + pem.error());
  auto key = ReadSigningKey(*pem);
  if (!key) throw StartupError(kExitUsage, "--ledger-head-key: " + path + " " + key.error());
  return std::move(*key);
}

LedgerHeadSigner::LedgerHeadSigner(const Config& config, KeyPtr key, Ledger& ledger,
                                   const Clock& clock)
    : file_(config.ledger_head_file),
      every_(config.ledger_head_every),
      ledger_(ledger),
      auditor_(dynamic_cast<LedgerAuditor*>(&ledger)),
      clock_(clock),
      key_(std::move(key)) {}

void LedgerHeadSigner::Look() {
  if (clock_.Now() < due_) return;
  due_ = clock_.Now() + every_;
  Keep();
}

void LedgerHeadSigner::Finish() { Keep(); }

void LedgerHeadSigner::Keep() {
  if (key_ == nullptr) return;
  const LedgerStats stats = ledger_.OwnStats();
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
    kept = KeepInFile(stats, head);
  }
  Tell(kept);
  if (tell_ && !head.signature.empty()) tell_(ToJson(head));
}

FileResult<void> LedgerHeadSigner::KeepInFile(const LedgerStats& stats, const SignedHead& head) {
  if (!may_replace_) {
    const auto objection = Objection(stats);
    if (!objection) return std::unexpected(objection.error());
    if (!objection->empty()) {
      return std::unexpected(
          *objection +
          "; the file is the proof, and it is left as it is: keep a copy of it, find out what "
          "happened to the data, and move the file away to have heads kept again");
    }
    may_replace_ = true;
  }
  return WriteFileAtomically(file_, ToJson(head) + "\n");
}

FileResult<std::string> LedgerHeadSigner::Objection(const LedgerStats& stats) const {
  std::error_code error;
  if (std::filesystem::status(file_, error).type() == std::filesystem::file_type::not_found) {
    return std::string();
  }
  const auto text = ReadInputFile(file_, kKeptFileBytesMax);
  if (!text) return std::unexpected(text.error());
  const auto kept = ParseSignedHead(*text);
  const bool is_ours = kept && kept->ledger == stats.identity && IsSignedBy(*key_, *kept);
  return is_ours ? Compare(stats, *kept) : std::string();
}

FileResult<std::string> LedgerHeadSigner::Compare(const LedgerStats& stats,
                                                  const SignedHead& kept) const {
  if (kept.row > stats.last_id) {
    return fmt::format(
        "row {} was signed at {}, and the ledger does not reach it any more: it was put back to an "
        "older copy, or cut",
        PrintRowId(kept.row), kept.time);
  }
  if (kept.row < stats.first_id) return std::string();  // retention has removed it
  Digest hash = stats.head;
  if (kept.row < stats.last_id) {
    const auto rows = auditor_->Rows(kept.row - 1, kept.row, 1);
    if (!rows || rows->empty()) {
      return std::unexpected(fmt::format(
          "row {}, which the file signs, cannot be read to be compared", PrintRowId(kept.row)));
    }
    hash = RowHash(rows->front().bytes);
  }
  if (hash == kept.hash) return std::string();
  return fmt::format(
      "row {} is not the one that was signed at {}: the ledger was put back to an older copy and "
      "went on, or was rewritten",
      PrintRowId(kept.row), kept.time);
}

// Once for each reason: it is tried again all the time.
void LedgerHeadSigner::Tell(const FileResult<void>& kept) {
  const std::string before = std::exchange(told_, kept ? std::string() : kept.error());
  if (!kept && told_ != before) {
    Log(LogLevel::kError, "the signed head of the ledger cannot be kept; it is tried again",
        {{"file", file_}, {"reason", told_}});
  }
  if (kept && !before.empty()) {
    Log(LogLevel::kInfo, "the signed head of the ledger is kept again", {{"file", file_}});
  }
}

}  // namespace recourse
