// `recourse approvals ...`: the commands that look at what waits for a human and decide it, through
// the admin API.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "proxy/cli/api_client.h"

namespace recourse {

struct ApprovalQuery {
  std::string tool, caller, by, pod;
  std::uint64_t limit = 100;
};

struct ApprovalWord {
  std::string verb;  // approve, reject
  std::string operation;
  std::string digest;     // of what was looked at
  std::string reason;     // may be empty for approve only
  std::string body_file;  // approve with this body instead; empty: as it is
};

// Each prints to `out`, errors to `err`, and gives the exit code.
int ListApprovals(const ApiClient& client, const ApprovalQuery& query, std::ostream& out,
                  std::ostream& err);
int ShowApproval(const ApiClient& client, const std::string& operation, std::ostream& out,
                 std::ostream& err);
int DecideApproval(const ApiClient& client, const ApprovalWord& word, std::ostream& out,
                   std::ostream& err);
// Prints what begins to wait, and what was decided, until it is stopped or the process is gone.
int WatchApprovals(const ApiClient& client, std::ostream& out, std::ostream& err);

}  // namespace recourse
