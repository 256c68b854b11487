// What a description shows of how the effect of a call can be taken back, or be looked for: other
// calls of the same resource. Guesses, with what speaks for them.
#pragma once

#include <string>
#include <vector>

#include "policy/import/openapi.h"

namespace recourse {

// An operation with the pattern of its path in the policy.
struct ApiCall {
  const ApiOperation* operation = nullptr;
  std::size_t backend = 0;
  std::string pattern;
};

struct Proposal {
  // Lines of a tool, each at its indentation, the guesses marked. An undo about which the
  // description leaves something open stands in a comment before `undo: undecided`.
  std::string lines;
  bool is_decided = false;
  std::string external_ref{};  // the place of the name that its undo wants; empty: the usual one
};

Proposal ProposeUndo(const ApiCall& call, const std::vector<ApiCall>& all);

// A request that finds what the call has made, as a comment: whether one value of it names one
// thing, no description says. Empty: there is none.
std::string ProposeProbe(const ApiCall& call, const std::vector<ApiCall>& all);

}  // namespace recourse
