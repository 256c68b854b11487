// What the policy in force says, for people who look at it.
#pragma once

#include <string>
#include <string_view>

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// GET /policy/tools: backends, tools, flows and limits as they are in force, without secrets.
HttpResponse PolicyTools(const Policy& policy);
JsonShape PolicyToolsShape();

// GET /policy/explain?call=METHOD+URL, or POST with {"call": "METHOD URL", "headers": [[name,
// value]], "body": "..."}: what `recourse policy explain` says of that call. Changes nothing.
HttpResponse PolicyExplain(const Policy& policy, const HttpRequest& request,
                           std::string_view query);

}  // namespace recourse
