// Which commit this binary was built from.
#pragma once

#include <string_view>

namespace recourse {

// Twelve digits, with "-dirty" when files differed from it; "unknown" outside of a checkout.
std::string_view BuildCommit();

}  // namespace recourse
