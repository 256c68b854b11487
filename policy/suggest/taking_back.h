// Which calls may take back what another has made, by method and name. Pure.
#pragma once

#include <string_view>

#include "policy/suggest/seen_tools.h"

namespace recourse {

enum class TakesBack {
  kNo,
  kPerhaps,  // its name may also mean that the thing has run its course
  kYes,
};

// Whether it does, the calls have to show.
TakesBack MayTakeBack(const SeenTool& made, const SeenTool& tool);

// "cancel", "refunds".
bool IsTakingBackWord(std::string_view word);

}  // namespace recourse
