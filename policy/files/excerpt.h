// The line that a problem is about, to be shown under it.
#pragma once

#include <string>
#include <string_view>

#include "policy/files/problem.h"

namespace recourse {

// "    12 | mode: [enforce\n       |       ^\n": that line of `text`, as far as it fits, and a
// caret under its column. Empty where the problem names no line of it.
std::string ExcerptFor(const PolicyProblem& problem, std::string_view text);

}  // namespace recourse
