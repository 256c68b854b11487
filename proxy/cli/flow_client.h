// `recourse flows ...`: the commands that look at flows and move them, through the admin API.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "proxy/cli/api_client.h"

namespace recourse {

struct FlowQuery {
  std::string phase;
  std::string name, matching;  // of the policy's flow; a part of the reason; empty: any
  std::string pod;             // that moved it last; empty: any
  bool parked = false;         // those that broke and need a human
  bool stopped = false;        // those that their deadline stopped unfinished
  bool all = false;            // also those that are over
  bool follows = false;        // goes on with what moves later, until a signal
  std::uint64_t limit = 100;
};

struct FlowOrderArguments {
  std::string verb;              // close, cancel, undo, retry, resolve
  std::string id;                // number or flow id; empty: all that `stopped` selects
  std::string reason;            // may be empty for retry only
  std::string by;                // who; may be empty
  std::string as, external_ref;  // of resolve
  std::string step = "0";
  bool preview = false, yes = false;  // of undo
  FlowQuery stopped;                  // of close
};

// Each prints to `out`, errors to `err`, and gives the exit code.
int ListFlows(const ApiClient& client, const FlowQuery& query, std::ostream& out,
              std::ostream& err);
int ShowFlow(const ApiClient& client, const std::string& id, std::ostream& out, std::ostream& err);
int OrderFlow(const ApiClient& client, const FlowOrderArguments& order, std::ostream& out,
              std::ostream& err);

}  // namespace recourse
