// The life of the policy as JSON, for the admin API and the command line.
#pragma once

#include <string>
#include <vector>

#include "proxy/base/json/json_shape.h"
#include "proxy/reload/policy_reload.h"

namespace recourse {

std::string ToJson(const ReloadReport& report);
// The same of a refused one as the members of a problem (RFC 9457).
std::string RefusedReloadJson(const ReloadReport& report);
// What is in force, what came of the last reload, and which open operations are orphaned.
std::string PolicyStateJson(const PolicyReloader& reloader);
std::vector<JsonShape> PolicyStateShapes();

}  // namespace recourse
