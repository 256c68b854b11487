// A blocking HTTP client for the command line.
#pragma once

#include <expected>
#include <string>

#include "proxy/base/http_message.h"

namespace recourse {

// Sends one request to `host`:`port` and waits at most `timeout_s` for each step. The error is one
// line for people.
std::expected<HttpResponse, std::string> Fetch(const std::string& host, const std::string& port,
                                               const HttpRequest& request, int timeout_s);

}  // namespace recourse
