// What libpq says where it cannot connect, in words for people; and what gives a role the rights
// that it lacks. Pure.
#pragma once

#include <string>
#include <string_view>

#include "filters/ledger/unopened.h"

namespace recourse {

// libpq's own words may name hosts and users, never a password. One line.
std::string OneLine(std::string_view text);

struct PgConnecting {
  std::string password_file{};  // that was read; empty: none
  std::string authorities{};    // the file of those whose certificates are trusted; empty: none
  bool tries_plain = false;     // without TLS, where it failed with TLS
};
// `said`: each address that was tried, one after the other.
Unopened WhyUnconnected(std::string_view said, const PgConnecting& with);

// What the role of a connection is there for.
struct PgPurpose {
  // As `recourse ledger grant --as` names it; "owner": of the tables.
  std::string_view task = "reader";
  std::string_view group{};  // empty: of all
};
inline constexpr PgPurpose kPgOwns{.task = "owner"};
// What the server refuses to a role for want of a right, and what gives it the right.
std::string WhyForbidden(std::string_view said, std::string_view role, const PgPurpose& purpose);

// Whether what is refused with that SQLSTATE may be done later, though nobody mends anything.
bool MayPass(std::string_view sqlstate);

}  // namespace recourse
