// By which names a call asks to be only tried. Pure.
#pragma once

#include <string_view>

namespace recourse {

// Of the field Prefer.
inline constexpr std::string_view kDryRunPreference = "dry-run";

// Of a field, a parameter or a member, in whatever case and with whatever signs: `X-Dry-Run`,
// `validate_only`, `dryRun`.
bool NamesDryRun(std::string_view name);

}  // namespace recourse
