// What is done with the database of a shared ledger beside the processes that run on it.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "policy/uri/ledger_url.h"

namespace recourse {

// Which database. A password may be in a file, which is read at each connect.
struct SharedLedger {
  LedgerUrl url;
  std::string password_file;
};

// Makes what its tables lack, or nothing, and gives a line that says what was done. Fails with a
// line for people, also where a later version has made them.
std::expected<std::string, std::string> MigrateSharedLedger(const SharedLedger& ledger);

// As JSON: the server, the tables, whether it is restored and nobody has accepted that, each stream
// that is not at its end, and work by kind and group. Fails with a line for people.
std::expected<std::string, std::string> SharedLedgerStatus(const SharedLedger& ledger);

// Gives a role of the database what that task needs: "pod", "keeper", "migration" or "reader".
struct SharedGrant {
  std::string task, role;
  std::string group;  // whose rows; empty: of all
};
std::expected<std::string, std::string> GrantSharedLedger(const SharedLedger& ledger,
                                                          const SharedGrant& grant);

// Lets new calls of a group through after the database was put back to an older state; of all
// groups, if that is empty. Gives a line that says so, and fails with one.
std::expected<std::string, std::string> AcceptSharedLedger(const SharedLedger& ledger,
                                                           std::string_view group,
                                                           std::string_view why);

}  // namespace recourse
