// W3C Trace Context, the part a proxy needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/context.h"

namespace recourse {

// nullopt for anything but a valid traceparent: lower-case hex, ids not all zero, version 00
// exactly as long as it must be; a later version may carry more fields, which are not ours to pass
// on.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

// "00-<trace id>-<parent id>-<flags>".
std::string FormatTraceparent(const TraceContext& trace);

}  // namespace recourse
