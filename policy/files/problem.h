// What is wrong with the files of a policy.
#pragma once

#include <cstdint>
#include <string>

namespace recourse {

struct PolicyProblem {
  enum class Severity : std::uint8_t { kError, kWarning };
  Severity severity = Severity::kError;
  std::string file;
  int line = 0;         // 1-based; 0: the whole file
  int column = 0;       // 1-based
  std::string key;      // dotted path, e.g. tools.orders.create.undo
  std::string message;  // what is wrong and what is accepted
  // "policy.yaml:12:5: error: tools.orders.create.undo: ..."
  std::string ToString() const;
};

}  // namespace recourse
