#include "filters/ledger/postgres/client/connect_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace recourse {
namespace {

bool Says(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

// What was said of each address. The second try of one, without TLS, says less than the first.
std::vector<std::string_view> AttemptsOf(std::string_view said, bool tries_plain) {
  constexpr std::string_view kAttempt = "connection to server ", kFailed = " failed: ";
  std::vector<std::string_view> attempts;
  std::set<std::string_view> addresses;
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find(kAttempt, at + 1), said.size());
    const std::string_view attempt = said.substr(at, end - at);
    at = end;
    const std::size_t address = attempt.find(kFailed);
    const bool is_new =
        address == std::string_view::npos || addresses.insert(attempt.substr(0, address)).second;
    if (is_new || !tries_plain) attempts.push_back(attempt);
  }
  return attempts;
}

// Whoever tries it again finds the same, until somebody has mended it. libpq tells of no SQLSTATE
// while it connects, and the server says it in the language of its log.
bool NeedsPerson(std::string_view attempt) {
  constexpr std::string_view kMistakes[] = {
      "does not match host name", "root certificate file",
      "does not support SSL",     "channel binding",
      " does not exist",          "is not permitted to log in",
      "no pg_hba.conf entry",     "permission denied for database"};
  return attempt.starts_with("invalid ") ||
         std::ranges::any_of(kMistakes, [&](std::string_view one) { return Says(attempt, one); });
}

std::string WhyOfPassword(std::string_view why, const PgConnecting& with) {
  const std::string mend =
      with.password_file.empty()
          ? "name the file that it is in with --ledger-password-file or the policy's "
            "ledger.password_file (without one it is that of the URL, of PGPASSWORD or ~/.pgpass)"
          : fmt::format("it is what {} holds, which is read at each connect: put the role's there",
                        with.password_file);
  return fmt::format("the ledger's database refuses the password: {}; {}", why, mend);
}

std::string WhyOfCertificate(std::string_view why, const PgConnecting& with) {
  const std::string file =
      with.authorities.empty() ? std::string() : fmt::format(" (now {})", with.authorities);
  return fmt::format(
      "the certificate of the ledger's database is not trusted: {}; name the file of the CA that "
      "has signed it in the URL, as sslrootcert=FILE{}; sslmode=verify-full holds the server to it",
      why, file);
}

std::string WhyOfName(std::string_view why) {
  return fmt::format(
      "the certificate of the ledger's database is of another name: {}; give it, by its CA "
      "(sslrootcert=FILE in the URL), a certificate with the name that the URL has, which "
      "sslmode=verify-full asks for, or write one of its names there, with hostaddr=ADDRESS",
      why);
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == '\t') {
      if (!line.empty() && line.back() != ' ') line += ' ';
    } else {
      line += c;
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

Unopened WhyUnconnected(std::string_view said, const PgConnecting& with) {
  const auto attempts = AttemptsOf(said, with.tries_plain);
  std::string all;
  for (const std::string_view attempt : attempts) all += attempt;
  const std::string why = OneLine(all);
  Unopened failed{.may_pass = !std::ranges::all_of(attempts, NeedsPerson)};
  if (Says(why, "password authentication failed") || Says(why, "no password supplied")) {
    failed.why = WhyOfPassword(why, with);
  } else if (Says(why, "does not match host name")) {
    failed.why = WhyOfName(why);
  } else if (Says(why, "certificate verify failed") || Says(why, "root certificate file")) {
    failed.why = WhyOfCertificate(why, with);
  } else if (Says(why, "does not support SSL")) {
    failed.why = fmt::format(
        "the ledger's database speaks no TLS: {}; switch it on there (ssl = on): beyond this host "
        "sslmode is verify-full",
        why);
  } else if (Says(why, "too many ")) {
    failed.why = fmt::format(
        "the ledger's database cannot be reached: {}; let the server have more (max_connections, "
        "or the role's CONNECTION LIMIT), or a pooler before it (pgbouncer: pool_mode = session)",
        why);
  } else {
    failed.why = fmt::format(
        "the ledger's database cannot be reached: {}; see that it runs, and that --ledger or the "
        "policy's ledger.url has its host, port, database and user",
        why);
  }
  return failed;
}

std::string WhyForbidden(std::string_view said, std::string_view role, const PgPurpose& purpose) {
  const std::string whose =
      purpose.group.empty() ? std::string() : fmt::format(", group {}", purpose.group);
  const std::string refused =
      fmt::format("the ledger's database forbids that to the role {}{}: {}", role, whose, said);
  if (purpose.task == "owner") return refused + "; do it as the role that owns the ledger's tables";
  if (purpose.task == "migration") {
    return refused +
           fmt::format(
               "; migrate as the role that owns the tables, or have it make this one their owner: "
               "recourse ledger grant --ledger URL --role {} --as migration",
               role);
  }
  const std::string group =
      purpose.group.empty() ? std::string() : fmt::format(" --group {}", purpose.group);
  return refused + fmt::format(
                       "; as the role that owns the tables run: recourse ledger grant --ledger URL "
                       "--role {} --as {}{}",
                       role, purpose.task, group);
}

// The server is read-only, met another transaction, is full, locked, stops, or its disk fails.
bool MayPass(std::string_view sqlstate) {
  constexpr std::string_view kPassing[] = {"25", "40", "53", "55", "57", "58"};
  return sqlstate.empty() || std::ranges::any_of(kPassing, [&](std::string_view one) {
           return sqlstate.starts_with(one);
         });
}

}  // namespace recourse
