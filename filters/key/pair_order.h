// Pairs of a form or a query whose order says something: servers build one value of several names
// (PHP, Rack, qs: `items[][sku]`, `items[][qty]`), or take two names for one (PHP: `a.b`, `a_b`).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace recourse {

// The names of those pairs as they come, each preceded by its length; empty where no two of them
// have to do with each other. Pairs of one name are in order anyway. Pure.
std::string OrderThatCounts(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace recourse
