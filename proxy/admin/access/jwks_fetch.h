// Asks an issuer for its keys.
#pragma once

#include "policy/model/policy.h"
#include "proxy/admin/access/key_source.h"

namespace recourse {

// GET of the url that `backend` was made from, verified by TLS; a redirect is not followed.
// Blocking.
UrlKeys::Fetch JwksFetch(const Backend& backend);

}  // namespace recourse
