// libpq, which is loaded when a ledger's database is first asked for: with it come the 17 libraries
// of Kerberos, LDAP and GnuTLS, at two fifths of the cost of a start, and most need none of them.
#pragma once

#include <expected>
#include <string>

namespace recourse {

// Before the first call of libpq. Fails with a line for people.
std::expected<void, std::string> LoadLibpq();

}  // namespace recourse
