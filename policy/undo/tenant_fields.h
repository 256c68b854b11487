// The fields that say for which tenant a call is made, in what Recourse sends about the call. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "policy/template/template.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

inline constexpr std::string_view kTenantRedacted =
    "`redact` names the field that says for which tenant the call was made";

// Adds the tenant fields of the call to `fields` of a request of ours about it, which is made with
// `method`, unless they are there: without them it would reach another tenant's thing. What
// `redact` names is never stored. False: such a field is missing now, so the request may not be
// sent.
bool AddTenants(const Headers& of_call, const std::vector<Selector>& redact,
                std::string_view method, Headers& fields);

}  // namespace recourse
