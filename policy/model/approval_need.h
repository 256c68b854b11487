// Whether a call needs a human, or is forbidden. Pure.
#pragma once

#include <optional>
#include <string>

#include "policy/model/policy.h"

namespace recourse {

// Why the rule asks a human, for people: the conditions that hold, or that cannot be evaluated on
// this call, which counts as holding. nullopt: one of them does not hold, or the rule is for
// suspected duplicates alone, so nobody is asked.
std::optional<std::string> WhyApproval(const ApprovalRule& rule, const CallValues& values);

// A human is asked about calls of the tool that look like repeats.
bool AsksAboutRepeats(const Tool& tool);
// Calls of the tool need a human by themselves, whatever was called before.
bool AsksAboutCalls(const Tool& tool);

// Why the tool's `deny` or `allow` has the call refused, for agents; nullopt: they do not. What is
// there and cannot be compared is refused by both; what is missing is by `allow` alone.
std::optional<std::string> WhyForbidden(const Tool& tool, const CallValues& values);

}  // namespace recourse
