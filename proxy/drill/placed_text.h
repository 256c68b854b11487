// Keys and marks at the places where the policy has Recourse write them, as a backend of the drill
// finds them. Pure.
#pragma once

#include <string>

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// What stands there; empty: nothing that is a text.
std::string TextAt(const RequestPlace& place, const HttpRequest& request);

// `wanted` with what `got` has at the place, if that is in body or query: written there as Recourse
// does, unless `wanted` has a text there already.
HttpRequest WithTextOf(const HttpRequest& got, const RequestPlace& place, HttpRequest wanted);

}  // namespace recourse
