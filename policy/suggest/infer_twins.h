// Calls that are equal to an earlier one but for values that are new in every call: another attempt
// of a client that stamps each, or another intent. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/suggest/seen_fields.h"

namespace recourse {

// A call that repeats an earlier one, both by their number in the tool's calls.
struct Repeat {
  std::size_t first = 0, again = 0;
  std::vector<std::string> differs;
};

struct Twin {
  Repeat calls;
  bool is_of_trace = false;  // else only of one caller
};

// `fields` are those of the tool's calls.
std::vector<Twin> FindTwins(const std::vector<Sighting>& seen, const SeenTool& tool,
                            const std::vector<SeenFields>& fields);

}  // namespace recourse
