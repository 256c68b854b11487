// Header fields that say what a call does, beside its path, query and body. Pure.
#pragma once

#include <string_view>

#include "proxy/base/http/http_message.h"

namespace recourse {

// An operation's name (SOAPAction, X-Amz-Target), what is copied or moved and where to
// (Destination, X-Amz-Copy-Source), which piece of an upload it is (Content-Range, Upload-Offset),
// how what is stored is called and described (Content-Disposition, X-Amz-Meta-...), that it is only
// tried. Not what may differ between attempts at one call: dates, ids of requests, checks,
// preconditions.
bool IsArgumentField(std::string_view name);

// Those of a call in lower case with their values, sorted, what it prefers to happen, and as what a
// patch in JSON is to be read.
Headers ArgumentFieldsOf(const Headers& headers);

}  // namespace recourse
