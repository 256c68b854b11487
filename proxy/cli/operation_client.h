// `recourse operations ...`: what operations are now, and an operator's word on one of them.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "proxy/cli/api_client.h"

namespace recourse {

struct OperationQuery {
  std::string phase, tool, pod;  // empty: any
  std::string status, trace, flow, caller;
  std::string value;  // the external reference, or that of a kept field of the answer
  std::uint64_t limit = 100;
};

struct SettleArguments {
  std::string id;  // number of the operation, or of one of its events
  std::string as;  // happened, absent
  std::string external_ref;
  std::string reason;
  std::string by;  // who; may be empty
};

// Each prints to `out`, errors to `err`, and gives the exit code.
int ListOperations(const ApiClient& client, const OperationQuery& query, std::ostream& out,
                   std::ostream& err);
// Its last event and all of them; `id` as in SettleArguments.
int ShowOperation(const ApiClient& client, const std::string& id, std::ostream& out,
                  std::ostream& err);
int SettleOperation(const ApiClient& client, const SettleArguments& order, std::ostream& out,
                    std::ostream& err);

}  // namespace recourse
