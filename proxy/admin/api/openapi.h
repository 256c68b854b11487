// The description of the admin API, OpenAPI 3.1.
#pragma once

#include <string>

namespace recourse {

// Made of the table of endpoints, of the tables of what is written, and of
// proxy/admin/openapi_parts.json, which has the words and what is taken.
const std::string& OpenApiDocument();

}  // namespace recourse
