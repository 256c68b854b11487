// The commands that ask the database of a shared ledger itself, and none of its processes.
#pragma once

#include <iosfwd>
#include <string>

#include "filters/ledger/open/shared.h"

namespace recourse {

// As they stand on the command line.
struct SharedLedgerArguments {
  std::string ledger, password_file;
  std::string key_file;             // of what is sealed; empty: it stays sealed
  std::string install_secret_file;  // of an import
};

// Each prints to `out`, errors to `err`, and gives the exit code. An address that is none of a
// database is a wrong use.
int MigrateLedger(const SharedLedgerArguments& args, std::ostream& out, std::ostream& err);
int GrantLedger(const SharedLedgerArguments& args, const SharedGrant& grant, std::ostream& out,
                std::ostream& err);
int ShowSharedLedger(const SharedLedgerArguments& args, std::ostream& out, std::ostream& err);
// `group` empty: of all.
int AcceptSharedLedger(const SharedLedgerArguments& args, const std::string& group,
                       const std::string& reason, std::ostream& out, std::ostream& err);
// Every stream, one after the other. `as_json`: one object, with a report of each.
int VerifySharedLedger(const SharedLedgerArguments& args, bool as_json, std::ostream& out,
                       std::ostream& err);
// The ledger in that directory goes into the database, which is then verified. Its secrets are
// those of `args`, else those that lie in it.
int ImportIntoSharedLedger(const SharedLedgerArguments& args, const std::string& directory,
                           const std::string& group, std::ostream& out, std::ostream& err);
// One export after the other, each of a stream.
int ExportSharedLedger(const SharedLedgerArguments& args, std::ostream& out, std::ostream& err);

}  // namespace recourse
