// A PostgreSQL of the test binary's own: started by the first test that asks, ended with the
// process, whatever ends it. Every caller gets a schema of its own.
#pragma once

#include <libpq-fe.h>

#include <expected>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"

namespace recourse {

// The URL of a fresh, empty schema.
std::string FreshPostgresUrl();
// The same with the ledger's tables in it.
std::string FreshPostgresLedger();
// A process with that ledger. `keys`: null for rows in clear.
std::unique_ptr<Ledger> OpenTestPostgres(const std::string& url, const Clock& clock,
                                         std::shared_ptr<const LedgerKeys> keys = nullptr);
// The same; fails with its line for people.
std::expected<std::unique_ptr<Ledger>, std::string> TryOpenTestPostgres(
    const std::string& url, const Clock& clock, std::shared_ptr<const LedgerKeys> keys,
    const std::string& install_id);
// With the database's time. However busy the machine is, a call waits until it begins.
std::unique_ptr<Ledger> OpenTimedPostgres(const std::string& url, const Clock& clock,
                                          bool observes = false);

// A connection that is nobody's; PQfinish ends it.
PGconn* PlainConnection(const std::string& url);

// For a relay: the directory of the server's socket, and the URL by way of another one.
std::string SocketOf(const std::string& url);
std::string UrlThrough(const std::string& directory, const std::string& url);

}  // namespace recourse
