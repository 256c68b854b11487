// What holds of a suggested tool, and what is left to a person; in words. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/suggest/suggest.h"

namespace recourse {

// Why its effect may be another than its method says; empty: nothing speaks for that.
std::string_view EffectDoubtOf(const SeenTool& seen);

struct ToolVerdict {
  std::vector<std::string> holds, open;
  bool must_decide = false;  // before `mode: enforce` takes it
};
ToolVerdict VerdictOf(const SuggestedTool& tool);

// A line for each tool, its name first.
// What cannot be told of writes without a trace, and what to do; empty: each had one.
std::string UntracedLine(const Suggestion& suggestion);

std::string VerdictLines(const Suggestion& suggestion);

}  // namespace recourse
