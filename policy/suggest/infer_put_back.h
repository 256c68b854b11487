// What a PATCH or a PUT changes, where a GET of the same path shows it: that is read before the
// call, and put back by another one. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "policy/suggest/seen_tools.h"
#include "policy/suggest/sighting.h"

namespace recourse {

struct SuggestedPutBack {
  std::string path;                  // "/orders/{path.id}", of both
  std::vector<std::string> members;  // of the body, to keep; empty: all of it
  std::size_t shown = 0;             // so many reads showed what a call had set
};

// nullopt: no read shows all that it changes, or none has shown that it took effect.
std::optional<SuggestedPutBack> InferPutBack(const std::vector<Sighting>& seen,
                                             const std::vector<SeenTool>& tools,
                                             const SeenTool& tool);

}  // namespace recourse
