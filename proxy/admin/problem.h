// Answers of the admin port that are no data.
#pragma once

#include <string_view>

#include "proxy/base/http_message.h"

namespace recourse {

// RFC 9457, for people. A 401 asks for a bearer token.
HttpResponse Problem(int status, std::string_view title, std::string_view detail);

}  // namespace recourse
