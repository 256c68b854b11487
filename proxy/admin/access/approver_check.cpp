#include "proxy/admin/access/approver_check.h"

#include <algorithm>
#include <set>
#include <utility>

namespace recourse {
namespace {

// A group's name names no person.
bool IsNamed(const OperatorDirectory& book, const std::string& name, const std::string& person,
             const std::vector<std::string>& groups) {
  return (person == name && !book.NamesGroup(name)) ||
         std::ranges::find(groups, name) != groups.end();
}

// Whether somebody may approve who has that name or is in a group of it.
bool IsSomebody(const OperatorDirectory& book, const std::string& name) {
  const auto has_token = [&](const OperatorDirectory::Token& token) {
    Roles roles = book.RolesOf(token.groups);
    if (token.roles.Has(Role::kApprove)) roles.Add(Role::kApprove);
    return roles.Has(Role::kApprove) && IsNamed(book, name, token.name, token.groups);
  };
  const auto has_certificate = [&](const auto& certificate) {
    const auto& [person, groups] = certificate;
    return book.RolesOf(groups).Has(Role::kApprove) && IsNamed(book, name, person, groups);
  };
  return std::ranges::any_of(book.tokens, has_token) ||
         std::ranges::any_of(book.certificates, has_certificate);
}

}  // namespace

std::vector<PolicyProblem> ApproversThatNobodyIs(const std::vector<NamedApprover>& approvers,
                                                 const OperatorDirectory& book,
                                                 const std::string& operators) {
  std::vector<PolicyProblem> problems;
  if (book.jwt) return problems;
  for (const auto& [name, where] : approvers) {
    if (IsSomebody(book, name)) continue;
    PolicyProblem& problem = problems.emplace_back(where);
    problem.severity = PolicyProblem::Severity::kWarning;
    problem.message = "nobody in " + operators + " is '" + name +
                      "', or in a group of that name, and has the role approve";
  }
  return problems;
}

std::vector<PolicyProblem> ApproversWithoutFile(const std::vector<NamedApprover>& approvers) {
  if (approvers.empty()) return {};
  std::set<std::string> sorted;
  for (const NamedApprover& approver : approvers) sorted.insert(approver.name);
  std::string names;
  for (const std::string& name : sorted) {
    names.append(names.empty() ? "" : ", ").append(name);
  }
  PolicyProblem problem = approvers.front().where;
  problem.severity = PolicyProblem::Severity::kWarning;
  problem.message =
      "nobody can approve, as no --operators FILE is given: such calls wait until "
      "they expire; name people in one who have the role approve and are, or are in "
      "a group called: " +
      names;
  return {std::move(problem)};
}

}  // namespace recourse
