// Whether there is somebody for each name that a policy's approvals ask. Pure.
#pragma once

#include <string>
#include <vector>

#include "policy/language/loader.h"
#include "proxy/admin/access/operator_directory.h"

namespace recourse {

// A warning for each of `approvers` that `book`, of the file `operators`, makes of nobody with the
// role approve. An issuer may put people into any group, so with one there are none.
std::vector<PolicyProblem> ApproversThatNobodyIs(const std::vector<NamedApprover>& approvers,
                                                 const OperatorDirectory& book,
                                                 const std::string& operators);

// The same where no operators file is given, in one warning.
std::vector<PolicyProblem> ApproversWithoutFile(const std::vector<NamedApprover>& approvers);

}  // namespace recourse
