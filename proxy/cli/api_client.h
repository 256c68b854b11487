// The commands that ask a running process through its admin API.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace recourse {

struct ApiClient {
  std::string address = "127.0.0.1:19081";  // or a url, http:// or https://
  std::string token_file;
  std::string ca_file;              // of an https address; empty: the system's trust store
  std::string cert_file, key_file;  // that name us there; empty: the token does
  std::string ledger;               // of a console; empty: all, or the one that an id names
  bool json = false;
  // That it is the admin API there has been seen: before, no token goes there.
  mutable bool is_proven = false;
};

struct EventQuery {
  std::string trace, tool, flow, status, phase, pod;
  std::string after = "0";    // only events with a larger id
  std::uint64_t limit = 100;  // events printed at most
  bool newest_first = false;
  bool follows = false;  // goes on with what is remembered later, until a signal
};

// Each prints to `out`, errors to `err`, and gives the exit code.
int ListEvents(const ApiClient& client, const EventQuery& query, std::ostream& out,
               std::ostream& err);
int ShowEvent(const ApiClient& client, const std::string& id, std::ostream& out, std::ostream& err);
// `since` and `until`: durations before now, such as 24h, or ms since 1970; empty: all, and now.
int ShowReport(const ApiClient& client, const std::string& since, const std::string& until,
               std::ostream& out, std::ostream& err);
// What policy is in force and what it left behind; and a reload, which fails with kExitPolicy.
int ShowPolicy(const ApiClient& client, std::ostream& out, std::ostream& err);
int ReloadPolicy(const ApiClient& client, std::ostream& out, std::ostream& err);

struct ExportQuery {
  std::string trace;
  std::uint64_t after = 0;
  bool with_answers = false;
};
// One JSON object per line: what ledger this is, then events, then what was written and the head of
// the hash chain up to which. An export that ends without its last line was cut off.
int ExportLedger(const ApiClient& client, const ExportQuery& query, std::ostream& out,
                 std::ostream& err);
// Lets new writes through after a restore from a backup.
int AcceptLedger(const ApiClient& client, const std::string& reason, std::ostream& out,
                 std::ostream& err);
int VerifyLedger(const ApiClient& client, std::ostream& out, std::ostream& err);
// Brings a consistent copy of the running ledger into `path`: checked whole, durable, and put there
// in one step.
int BackupLedger(const ApiClient& client, const std::string& path, std::ostream& out,
                 std::ostream& err);

}  // namespace recourse
