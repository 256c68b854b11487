#include "proxy/cli/shared_ledger_client.h"

#include <fmt/format.h>

#include <expected>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/model/missing_key.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/open/shared_audit.h"
#include "filters/ledger/open/shared_import.h"
#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/seal/key_ring.h"
#include "policy/uri/ledger_url.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/row_view.h"
#include "proxy/base/clock.h"
#include "proxy/base/crypto/aead.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/terminal_text.h"
#include "proxy/base/random.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/row_export.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/startup/ledger_secrets.h"

namespace recourse {
namespace {

std::expected<SharedLedger, int> SharedOf(const SharedLedgerArguments& args, std::ostream& err) {
  auto url = ParseLedgerUrl(args.ledger);
  if (url && url->is_shared()) return SharedLedger{std::move(*url), args.password_file};
  err << "recourse: --ledger: "
      << (url ? "it is no ledger in a database, which alone has tables" : url.error()) << "\n";
  return std::unexpected(kExitUsage);
}

int FailLedger(std::ostream& err, const std::string& why) {
  err << "recourse: " << why << "\n";
  return kExitLedger;
}

int PrintSaid(const std::expected<std::string, Unopened>& said, std::ostream& out,
              std::ostream& err) {
  if (!said) {
    const auto& [why, may_pass] = said.error();
    return may_pass ? Fail(err, why) : FailLedger(err, why);
  }
  out << *said << "\n";
  return kExitOk;
}

// Null: none was named.
FileResult<SharedKeys> KeysOf(const std::string& file) {
  if (file.empty()) return SharedKeys();
  static SystemRandom random;  // of the keys, which only open here
  auto text = ReadPrivateFile(file, limits::kKeyFileBytesMax);
  if (!text) return std::unexpected("--ledger-key-file: " + text.error());
  auto ring = KeyRing::Parse(*text);
  Wipe(*text);
  if (!ring) return std::unexpected("--ledger-key-file: " + file + ": " + ring.error());
  return std::make_shared<LedgerKeys>(std::move(*ring), random);
}

using Audit = std::expected<std::unique_ptr<SharedAudit>, int>;

Audit OpenAudit(const SharedLedgerArguments& args, std::ostream& err) {
  const auto ledger = SharedOf(args, err);
  if (!ledger) return std::unexpected(ledger.error());
  auto keys = KeysOf(args.key_file);
  if (!keys) {
    err << "recourse: " << keys.error() << "\n";
    return std::unexpected(kExitUsage);
  }
  auto audit = SharedAudit::Open(*ledger, std::move(*keys));
  if (audit) return std::move(*audit);
  const auto& [why, is_away] = audit.error();
  return std::unexpected(is_away ? Fail(err, why) : FailLedger(err, why));
}

void PrintReport(const SharedStream& stream, const VerifyReport& report, std::ostream& out) {
  const std::string of = fmt::format("stream {} ({}, {})", stream.stream, stream.group, stream.pod);
  if (!report.ok) {
    out << (report.check == kMissingKeyCheck ? "NOT WHOLLY CHECKED: " : "BROKEN: ") << of << ": "
        << TerminalText(report.problem) << "\n";
    return;
  }
  out << "ok: " << of << ": " << report.rows << " rows, chain head " << report.head << "\n";
  if (!report.base.empty()) {
    out << "rows before " << PrintRowId(report.first_id)
        << " were removed by retention; chain base " << report.base << "\n";
  }
}

struct Checked {
  const SharedStream& stream;
  VerifyReport report;
};

std::string JsonOf(const std::vector<Checked>& all, bool ok, std::uint64_t rows,
                   const std::string& problem, const std::vector<std::uint64_t>& gaps) {
  return ObjectText([&](JsonObject& json) {
    json.Bool("ok", ok);
    json.Number("rows", rows);
    json.Text("problem", problem);
    json.Each("unlisted", gaps,
              [](std::string& text, std::uint64_t gap) { text += std::to_string(gap); });
    json.Objects("streams", all, [](JsonObject& one, const Checked& checked) {
      one.Number("stream", checked.stream.stream);
      one.Text("group", checked.stream.group);
      one.Text("pod", checked.stream.pod);
      one.Raw("report", ToJson(checked.report));
    });
  });
}

// Gives how many rows it had.
std::expected<std::uint64_t, std::string> ExportStream(SharedAudit& audit,
                                                       const SharedStream& stream,
                                                       std::ostream& out) {
  const auto base = audit.BaseOf(stream);
  if (!base) return std::unexpected(base.error());
  const std::uint64_t first = base->first_seq;
  RowExport printed(out);
  std::string hash;
  std::uint64_t after = first - 1;
  while (after < stream.last_id) {
    const auto rows = audit.Rows(stream, after, limits::kAdminPageMax);
    if (!rows) return std::unexpected(rows.error());
    if (rows->empty()) return std::unexpected("a row of the ledger cannot be read");
    std::string lines;
    for (const LoggedRow& row : *rows) AppendRowLine(lines, row);
    const RowExport::Begin begin{.ledger = ToHex(audit.identity()),
                                 .row_format = std::to_string(kRowFormatVersion),
                                 .after = after,
                                 .base = ToHex(rows->front().head.prev_hash),
                                 .stream = stream.stream};
    if ((hash.empty() && !printed.Print(begin)) || !printed.Print(lines)) {
      return std::unexpected(std::string(kCannotWriteExport));
    }
    after = rows->back().head.seq;
    hash = ToHex(RowHash(rows->back().bytes));
  }
  if (hash.empty()) return 0;
  if (hash != ToHex(stream.chain)) {
    return std::unexpected(fmt::format(
        "stream {} does not end as the table says; run: recourse ledger verify", stream.stream));
  }
  if (!printed.PrintEnd(after - first + 1, hash)) {
    return std::unexpected(std::string(kCannotWriteExport));
  }
  return after - first + 1;
}

}  // namespace

int MigrateLedger(const SharedLedgerArguments& args, std::ostream& out, std::ostream& err) {
  const auto ledger = SharedOf(args, err);
  return ledger ? PrintSaid(MigrateSharedLedger(*ledger), out, err) : ledger.error();
}

int GrantLedger(const SharedLedgerArguments& args, const SharedGrant& grant, std::ostream& out,
                std::ostream& err) {
  const auto ledger = SharedOf(args, err);
  return ledger ? PrintSaid(GrantSharedLedger(*ledger, grant), out, err) : ledger.error();
}

int ShowSharedLedger(const SharedLedgerArguments& args, std::ostream& out, std::ostream& err) {
  const auto ledger = SharedOf(args, err);
  return ledger ? PrintSaid(SharedLedgerStatus(*ledger), out, err) : ledger.error();
}

int AcceptSharedLedger(const SharedLedgerArguments& args, const std::string& group,
                       const std::string& reason, std::ostream& out, std::ostream& err) {
  const auto ledger = SharedOf(args, err);
  return ledger ? PrintSaid(AcceptSharedLedger(*ledger, group, reason), out, err) : ledger.error();
}

int VerifySharedLedger(const SharedLedgerArguments& args, bool as_json, std::ostream& out,
                       std::ostream& err) {
  const auto audit = OpenAudit(args, err);
  if (!audit) return audit.error();
  bool ok = true, is_broken = false;
  // What was found until then stays found.
  const auto ends_early = [&](const std::string& why) {
    const int failed = Fail(err, why);
    return is_broken ? kExitLedger : failed;
  };
  std::uint64_t rows = 0;
  std::vector<Checked> all;
  for (const SharedStream& stream : (*audit)->streams()) {
    const VerifyReport& report = all.emplace_back(stream, (*audit)->Verify(stream)).report;
    if (report.is_away) return ends_early(report.problem);
    ok = ok && report.ok;
    is_broken = is_broken || (!report.ok && report.check != kMissingKeyCheck);
    rows += report.rows;
    if (!as_json) PrintReport(stream, report, out);
  }
  const auto problem = (*audit)->CheckTables();
  if (!problem) return ends_early(problem.error());
  const auto gaps = (*audit)->Gaps();
  if (!gaps) return ends_early(gaps.error());
  is_broken = is_broken || !problem->empty();
  ok = ok && problem->empty();
  if (as_json) {
    out << JsonOf(all, ok, rows, *problem, *gaps) << "\n";
  } else if (!problem->empty()) {
    out << "BROKEN: " << *problem << "\n";
  } else if (ok) {
    out << "ok: " << all.size() << " streams, " << rows << " rows\n";
  }
  for (const std::uint64_t gap : as_json ? std::vector<std::uint64_t>() : *gaps) {
    out << "note: no stream " << gap << " is listed, though its number was given away: its process"
        << " never began, or all of it was removed\n";
  }
  if (is_broken) return kExitLedger;
  return ok ? kExitOk : Fail(err, "give a --ledger-key-file that has the lines of all these keys");
}

int ImportIntoSharedLedger(const SharedLedgerArguments& args, const std::string& directory,
                           const std::string& group, std::ostream& out, std::ostream& err) {
  const auto ledger = SharedOf(args, err);
  if (!ledger) return ledger.error();
  SystemRandom random;
  LedgerSecretFiles secrets(directory, args.key_file, args.install_secret_file, random);
  LedgerImport import{.to = *ledger, .group = group};
  import.from.directory = directory;
  import.from.unsafe_fs = true;  // it is read
  import.from.secrets = [&secrets](const LedgerFacts& facts) { return secrets.Load(facts); };
  const SystemClock clock;
  const int done = PrintSaid(ImportLedger(std::move(import), clock), out, err);
  if (done != kExitOk) return done;
  SharedLedgerArguments checked = args;
  if (checked.key_file.empty()) checked.key_file = directory + "/ledger.key";
  return VerifySharedLedger(checked, false, out, err);
}

int ExportSharedLedger(const SharedLedgerArguments& args, std::ostream& out, std::ostream& err) {
  const auto audit = OpenAudit(args, err);
  if (!audit) return audit.error();
  std::vector<ExportedStream> exported;
  for (const SharedStream& stream : (*audit)->streams()) {
    const auto rows = ExportStream(**audit, stream, out);
    if (!rows) return Fail(err, rows.error());
    if (*rows > 0) exported.push_back({stream.stream, *rows, ToHex(stream.chain)});
  }
  const bool is_written = PrintStreams(ToHex((*audit)->identity()), exported, out);
  return is_written ? kExitOk : Fail(err, std::string(kCannotWriteExport));
}

}  // namespace recourse
