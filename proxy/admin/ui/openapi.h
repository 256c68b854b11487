// The description of the admin API, OpenAPI 3.1.
#pragma once

#include <string>

namespace recourse {

// Made of the table of endpoints and of proxy/admin/openapi_parts.json, which has the schemas.
const std::string& OpenApiDocument();

}  // namespace recourse
