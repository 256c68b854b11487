// A PostgreSQL of the test binary's own: started by the first test that asks, ended with the
// process, whatever ends it. Every caller gets a schema of its own.
#pragma once

#include <string>

namespace recourse {

// The URL of a fresh, empty schema.
std::string FreshPostgresUrl();
// The same with the ledger's tables in it.
std::string FreshPostgresLedger();

}  // namespace recourse
