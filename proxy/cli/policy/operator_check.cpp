#include "proxy/cli/policy/operator_check.h"

#include <utility>

#include "proxy/admin/access/approver_check.h"
#include "proxy/admin/access/operator_store.h"

namespace recourse {

std::vector<PolicyProblem> ProblemsWithOperators(const LoadedPolicy& loaded,
                                                 const std::string& operators) {
  if (operators.empty()) return ApproversWithoutFile(loaded.approvers);
  OperatorFiles files = ReadOperatorFiles(operators);
  return files.loaded.ok() ? ApproversThatNobodyIs(loaded.approvers, *files.loaded.book, operators)
                           : std::move(files.loaded.problems);
}

}  // namespace recourse
