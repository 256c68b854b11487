// multipart/form-data (RFC 7578), read strictly: whatever two readers could split differently is
// refused.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "filters/call/call_values.h"

namespace recourse {

// The parts in order. nullopt when the boundary is not one of RFC 2046, when there is text before
// the first or after the last boundary, when a part has no well-formed header, or more of it than a
// bound (kMultipartPartsMax, kPartLineBytesMax, kPartNamesMax) allows.
std::optional<std::vector<BodyPart>> ParseMultipart(std::string_view body,
                                                    std::string_view boundary);

}  // namespace recourse
