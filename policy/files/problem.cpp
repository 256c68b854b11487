#include "policy/files/problem.h"

#include <fmt/format.h>

namespace recourse {

std::string PolicyProblem::ToString() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}:{}", line, column);
  out += severity == Severity::kError ? ": error: " : ": warning: ";
  if (!key.empty()) out += key + ": ";
  return out + message;
}

}  // namespace recourse
