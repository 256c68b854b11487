// Header fields that say what a call does, beside its path, query and body. Pure.
#pragma once

#include "proxy/base/http/http_message.h"

namespace recourse {

// In lower case with their values, sorted: an operation's name (SOAPAction, X-Amz-Target), what is
// copied or moved and where to (Destination, X-Amz-Copy-Source), which piece of an upload it is
// (Content-Range, Upload-Offset), how what is stored is called and described (Content-Disposition,
// X-Amz-Meta-...), that it is only tried; what the call prefers to happen, and as what a patch in
// JSON is to be read. Not what may differ between attempts at one call: dates, ids of requests,
// checks, preconditions.
Headers ArgumentFieldsOf(const Headers& headers);

// Those that say what must hold before it is done (RFC 9110 13.1, WebDAV's and CalDAV's, those of
// stores of objects): in lower case with their values, sorted.
Headers PreconditionsOf(const Headers& headers);

}  // namespace recourse
