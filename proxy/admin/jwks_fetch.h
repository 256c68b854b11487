// Asks an issuer for its keys.
#pragma once

#include "policy/policy.h"
#include "proxy/admin/key_source.h"

namespace recourse {

// GET of the url that `backend` was made from, verified by TLS; a redirect is not followed.
// Blocking.
UrlKeys::Fetch JwksFetch(const Backend& backend);

}  // namespace recourse
