#include "proxy/cli/audit_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ostream>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/cli/api_call.h"
#include "proxy/cli/row_export.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/startup/signed_head.h"

namespace recourse {
namespace {

constexpr std::size_t kNamedFileBytesMax = 64 * 1024;

// Of a member that is an id; 0: it is none.
std::uint64_t IdIn(const Json& object, std::string_view name) {
  return ParseRowId(Printable(object, name)).value_or(0);
}

std::string RowsTarget(std::uint64_t after, const std::string& up_to) {
  return fmt::format("{}?after={}&up_to={}&limit={}", admin_paths::kLedgerRows, PrintRowId(after),
                     up_to, kAdminPageMax);
}

// Of the last line of a page.
std::string LastHash(std::string_view page) {
  const auto begin = page.size() < 2 ? 0 : page.rfind('\n', page.size() - 2) + 1;
  const auto row = ParseJson(page.substr(begin));
  return row ? Printable(*row, "hash") : std::string();
}

}  // namespace

int ExportRows(const ApiClient& client, std::uint64_t after, std::ostream& out, std::ostream& err) {
  const auto ledger = LedgerOf(client);
  if (!ledger) return Fail(err, ledger.error());
  const std::string last = Printable(*ledger, "last_id");
  const std::uint64_t up_to = IdIn(*ledger, "last_id");
  const std::uint64_t first = IdIn(*ledger, "first_id");
  if (after == 0 && first > 0) after = first - 1;  // retention has removed the rows before
  if (after > up_to) {
    return Fail(err,
                fmt::format("there is no row {}: this ledger ends at row {}. It is another "
                            "one than was exported, or it was put back to an older copy or "
                            "cut; compare it with a signed head: recourse ledger verify --head",
                            PrintRowId(after), PrintRowId(up_to)));
  }
  RowExport printed(out);
  std::string hash;
  std::uint64_t next = after;
  while (next < up_to) {
    const auto page = Call(client, "GET", RowsTarget(next, last));
    if (!page) return Fail(err, page.error());
    const auto rows = static_cast<std::uint64_t>(std::count(page->begin(), page->end(), '\n'));
    const auto row = ParseJson(page->substr(0, page->find('\n')));
    if (!row || rows == 0) return Fail(err, kNotUnderstood);
    const RowExport::Begin begin{.ledger = Printable(*ledger, "identity"),
                                 .row_format = Printable(*ledger, "row_format"),
                                 .after = after,
                                 .base = Printable(*row, "prev")};
    if ((next == after && !printed.Print(begin)) || !printed.Print(*page)) {
      return Fail(err, kCannotWriteExport);
    }
    hash = LastHash(*page);
    next += rows;
  }
  if (next == after) return kExitOk;  // nothing new
  if (hash != Printable(*ledger, "head")) {
    return Fail(err,
                "what was read is not what the ledger said a moment ago; run: recourse ledger "
                "verify");
  }
  return printed.PrintEnd(next - after, hash) ? kExitOk : Fail(err, kCannotWriteExport);
}

namespace {

// What speaks against it, for people; empty: nothing.
FileResult<SignedHead> ReadHead(const std::string& file, const std::string& key_file) {
  const auto text = ReadInputFile(file, kNamedFileBytesMax);
  if (!text) return std::unexpected(text.error());
  auto head = ParseSignedHead(*text);
  if (!head) return std::unexpected(file + " " + head.error());
  if (key_file.empty()) return head;
  const auto pem = ReadInputFile(key_file, kNamedFileBytesMax);
  if (!pem) return std::unexpected(pem.error());
  const auto key = ReadVerifyingKey(*pem);
  if (!key) return std::unexpected(key_file + " " + key.error());
  if (!IsSignedBy(**key, *head)) {
    return std::unexpected(file + " is not signed with the key of " + key_file +
                           ": it was changed, or it is another process's");
  }
  return head;
}

// What it says of the ledger, if that is bad; empty: it holds the head.
FileResult<std::string> LedgerObjection(const ApiClient& client, const SignedHead& head) {
  const auto ledger = LedgerOf(client);
  if (!ledger) return std::unexpected(ledger.error());
  if (Printable(*ledger, "identity") != ToHex(head.ledger)) {
    return fmt::format("the signed head is of another ledger, {}", ToHex(head.ledger));
  }
  const std::uint64_t last = IdIn(*ledger, "last_id");
  const std::uint64_t first = IdIn(*ledger, "first_id");
  if (last < head.row) {
    return fmt::format(
        "the ledger ends at row {}, but row {} was signed at {}: it was put back to an older copy, "
        "or cut",
        PrintRowId(last), PrintRowId(head.row), head.time);
  }
  if (head.row < first) {
    return fmt::format(
        "retention has removed row {}, which was signed at {}; take a newer head to compare with",
        PrintRowId(head.row), head.time);
  }
  const auto page = Call(client, "GET", RowsTarget(head.row - 1, PrintRowId(head.row)));
  if (!page) return std::unexpected(page.error());
  if (LastHash(*page) == ToHex(head.hash)) return std::string();
  return fmt::format("row {} is not the one that was signed at {}: the ledger was rewritten",
                     PrintRowId(head.row), head.time);
}

}  // namespace

int VerifyLedgerWithHead(const ApiClient& client, const std::string& file,
                         const std::string& key_file, std::ostream& out, std::ostream& err) {
  const auto head = ReadHead(file, key_file);
  if (!head) return Fail(err, head.error());
  const auto objection = LedgerObjection(client, *head);
  if (!objection) return Fail(err, objection.error());
  if (!objection->empty()) {
    err << "recourse: BROKEN: " << *objection << "\n";
    return kExitLedger;
  }
  if (!client.json) {
    out << fmt::format("ok: row {} is the one that was signed at {}{}\n", PrintRowId(head->row),
                       head->time,
                       key_file.empty() ? "; its signature was not looked at (--head-key)" : "");
  }
  return VerifyLedger(client, out, err);
}

}  // namespace recourse
