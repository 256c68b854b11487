#pragma once

#include <string>

#include "filters/context.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// The request as it goes to the backend: own fields removed, `key` in the backend's key field,
// answers asked for unencoded so that they can be read. A call that is only logged goes out as it
// came. Pure.
HttpRequest UpstreamRequest(const RequestContext& context, const std::string& key);
// Its fields alone, with room for some more.
Headers UpstreamFields(const RequestContext& context, const std::string& key);

}  // namespace recourse
