// Undo requests of writes whose outcome is unknown: rendered while the call is still there, with a
// stand-in for the reference that only its answer would have told.
#pragma once

#include <string>
#include <string_view>

#include "policy/template/template.h"

namespace recourse {

// The stand-in of the write with that key (hex), which no value of a call can be.
std::string LateReference(std::string_view key);

// Whether the request still waits for its reference.
bool LacksReference(const RenderedRequest& request, std::string_view key);

// Puts the reference into its places, encoded as Render would have. Fails with a static reason when
// it cannot stand there: it is then the same as a value that Render refuses.
Result<RenderedRequest> FillReference(RenderedRequest request, std::string_view key,
                                      const std::string& reference);

}  // namespace recourse
