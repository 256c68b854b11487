// A probe that asks by the value which tells an intent from every other. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/suggest/given_names.h"
#include "policy/suggest/infer_search.h"

namespace recourse {

// `ref_place` is where answers tell the name of what was made; `number` that of its tool.
std::optional<SuggestedProbe> InferProbe(const std::vector<Sighting>& seen,
                                         const std::vector<SeenTool>& tools,
                                         const GivenNames& given, std::size_t number,
                                         const MadeThings& things, const std::string& ref_place);

}  // namespace recourse
