// Which header fields of a call somebody here reads. Many servers take a '_' in the name of a field
// for a '-', and PHP a '.', so that a field may be another one to them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"

namespace recourse {

// The fields that the words of the policy name, in lower case, sorted.
std::vector<std::string> FieldsOfWords(const Policy& policy);

// `name` with '-' for each other sign, in lower case, if that is a field which Recourse or the
// policy reads; empty: it is not, or `name` has no such sign.
std::string ReadTwin(const Policy& policy, std::string_view name);

// Why a field whose twin is read is refused.
std::string WhyTwinRefused(std::string_view twin);

}  // namespace recourse
