// How past calls would be classed under another policy: `recourse policy replay`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <istream>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "policy/explain/observed_counts.h"
#include "policy/model/policy.h"

namespace recourse {

// One write call as an export of the ledger tells it. What an export does not hold stays empty.
struct PastCall {
  std::string operation, event;  // their ids
  std::string related{};         // observed calls: the operation that this one repeated
  std::string tool, backend, caller, trace_id, method, path, policy_version;
  std::string verdict{};  // of observe mode; empty: it was not only observed
  std::optional<std::string> query, body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// What becomes of one past call.
struct ReplayVerdict {
  std::vector<std::string> changes;  // empty: it is classed as it was
  std::string group;                 // calls of equal group differ in the same way
  // What would have to be equal for two calls to be one; empty: cannot be told from the export.
  std::string key;
  std::string key_unknown;  // why not
  // Of a write that was only observed: what enforcing would have done with it, as `tool`.
  std::string tool;
  std::size_t ObservedCounts::* counted = nullptr;
};
// `before` may be null: then only names and effects are compared, not the parts of keys. Pure.
ReplayVerdict ReplayCall(const PastCall& call, const Policy& after, const Policy* before);

// Reads NDJSON: one event per line, as `recourse events list --json` shows them; an array of them
// is accepted too. Unknown members are ignored. Rows of one operation are one call. Fails with
// "line N: ..." for what is no event, and past kReplayCallsMax operations.
std::expected<std::vector<PastCall>, std::string> ReadExport(std::istream& in);

// The subcommand. Gives 0 when nothing changes, 1 when something does, 2 when the export cannot be
// read, 3 when a policy is invalid. Of calls that were only observed nothing can change: 1 then
// says that two of them would be one. `before` may be empty.
int RunPolicyReplay(const std::string& exported, const std::string& after,
                    const std::string& before, std::ostream& out, std::ostream& err);

}  // namespace recourse
