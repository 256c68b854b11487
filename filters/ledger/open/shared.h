// What is done with the database of a shared ledger beside the processes that run on it.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "filters/ledger/unopened.h"
#include "policy/uri/ledger_url.h"

namespace recourse {

// Which database. A password may be in a file, which is read at each connect.
struct SharedLedger {
  LedgerUrl url;
  std::string password_file;
};

// Makes what its tables lack, or nothing, and gives a line that says what was done. Fails also
// where a later version has made them.
std::expected<std::string, Unopened> MigrateSharedLedger(const SharedLedger& ledger);

// As JSON: the server, the tables, whether it is restored and nobody has accepted that, each stream
// that is not at its end, and work by kind and group.
std::expected<std::string, Unopened> SharedLedgerStatus(const SharedLedger& ledger);

// Gives a role of the database what that task needs: "pod", "keeper", "migration" or "reader".
struct SharedGrant {
  std::string task, role;
  std::string group;  // whose rows; empty: of all
};
std::expected<std::string, Unopened> GrantSharedLedger(const SharedLedger& ledger,
                                                       const SharedGrant& grant);

// Lets new calls of a group through after the database was put back to an older state; of all
// groups, if that is empty. Gives a line that says so.
std::expected<std::string, Unopened> AcceptSharedLedger(const SharedLedger& ledger,
                                                        std::string_view group,
                                                        std::string_view why);

}  // namespace recourse
