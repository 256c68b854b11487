// `recourse flows ...`: the commands that look at flows and move them, through the admin API.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "proxy/server/admin_client.h"

namespace recourse {

struct FlowQuery {
  std::string phase;
  bool parked = false;  // those that need a human
  bool all = false;     // also those that are over
  std::uint64_t limit = 100;
};

struct FlowOrderArguments {
  std::string verb;    // close, cancel, undo, retry, resolve
  std::string id;      // number or flow id
  std::string reason;  // may be empty for retry only
  std::string by;      // who; may be empty
  std::string as;      // of resolve
  std::uint64_t step = 0;
  bool preview = false, yes = false;  // of undo
};

// Each prints to `out`, errors to `err`, and gives the exit code.
int ListFlows(const AdminClient& client, const FlowQuery& query, std::ostream& out,
              std::ostream& err);
int ShowFlow(const AdminClient& client, const std::string& id, std::ostream& out,
             std::ostream& err);
int OrderFlow(const AdminClient& client, const FlowOrderArguments& order, std::ostream& out,
              std::ostream& err);

}  // namespace recourse
