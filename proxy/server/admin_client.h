// The commands that ask a running process through its admin API.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

namespace recourse {

struct AdminClient {
  std::string address = "127.0.0.1:19081";
  std::string token_file;
  bool json = false;
};

struct EventQuery {
  std::string trace, tool, status, phase;
  std::uint64_t after = 0;    // only events with a larger id
  std::uint64_t limit = 100;  // events printed at most
};

// Each prints to `out`, errors to `err`, and gives the exit code.
int ListEvents(const AdminClient& client, const EventQuery& query, std::ostream& out,
               std::ostream& err);
int ShowEvent(const AdminClient& client, std::uint64_t id, std::ostream& out, std::ostream& err);
int VerifyLedger(const AdminClient& client, std::ostream& out, std::ostream& err);

}  // namespace recourse
