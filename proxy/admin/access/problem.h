// Answers of the admin port.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"

namespace recourse {

// 200 with a whole JSON text.
HttpResponse JsonAnswer(std::string body);

// Title of a 401 that asks for a credential, or for another one.
inline constexpr std::string_view kNotAuthorized = "Not authorized";

// RFC 9457, for people. A 401 asks for a bearer token.
HttpResponse Problem(int status, std::string_view title, std::string_view detail);
// Of a ledger that cannot be read or written.
HttpResponse NoLedger(std::string_view detail);

// Who asks for a pod where the ledger is of one process.
HttpResponse NoPods();

}  // namespace recourse
