// A human's no to a call holds for its caller, tool and arguments, whatever trace or key they come
// under, for as long as the call could have waited. Pure.
#pragma once

#include <string>
#include <string_view>

#include "filters/ledger/model/event.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Under which the index finds the operation that was refused last: of these arguments, and of any.
Digest KeyOfNo(std::string_view caller, std::string_view tool, const Digest& args_hash);
Digest KeyOfNo(std::string_view caller, std::string_view tool);

// The decision that refused it; null: no human did.
const ApprovalDecision* NoTo(const Event& event);

// For whoever is asked about another call of that tool.
std::string TextOfNo(const Event& event, const ApprovalDecision& no);

}  // namespace recourse
