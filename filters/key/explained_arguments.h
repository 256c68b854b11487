// What `recourse policy explain` and `test` say of a call's arguments: the proxy's own judgement.
#pragma once

#include <string>

#include "policy/explain/explain.h"

namespace recourse {

// An ArgumentsReader. Without a Content-Type a body that begins like JSON is taken for it: on a
// command line nobody writes the header. Pure.
ExplainedArguments ArgumentsOf(const Tool& tool, const ExplainedCall& call, const Pairs& query,
                               const std::string& called);

}  // namespace recourse
