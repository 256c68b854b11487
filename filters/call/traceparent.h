// W3C Trace Context, the part a proxy needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/call_context.h"

namespace recourse {

// The parts of a traceparent, inside the text that was read.
struct TraceparentView {
  std::string_view trace_id, parent_id, flags;
  bool IsSampled() const;
};

// The same as ParseTraceparent, without allocation.
std::optional<TraceparentView> ReadTraceparent(std::string_view text);

// nullopt for anything but a valid traceparent: lower-case hex, ids not all zero, version 00
// exactly as long as it must be; a later version may carry more fields, which are not ours to pass
// on.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace recourse
