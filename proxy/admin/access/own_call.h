// Whether a call that waits is that person's own: nobody decides what comes in a name of theirs.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/model/callers.h"
#include "proxy/admin/access/operator.h"

namespace recourse {

// What a credential calls somebody: the operator's name, a certificate beside a token, and of a
// token also what that rule would name a caller by.
std::vector<std::string> NamesOf(const Operator& who, const CallersRule& callers);

// A call that waits, as it came.
struct AskedCall {
  std::string_view caller;
  const std::vector<std::pair<std::string, std::string>>* fields = nullptr;  // null: not kept
};
// By which of its names; empty: it is somebody else's. The token that named the caller was verified
// when it asked, and may name a person by another claim.
std::string OwnNameIn(const AskedCall& call, const Operator& who, const CallersRule& callers);

}  // namespace recourse
