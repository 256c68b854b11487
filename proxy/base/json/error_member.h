// The member `error` of our problem documents, beside those of RFC 9457: SDKs of APIs look there,
// and Stripe's takes an answer without it for a success, whatever its status.
#pragma once

#include <string_view>

#include "proxy/base/json/json_object.h"

namespace recourse {

// What SDKs call an error of this status.
std::string_view ErrorTypeOf(int status);

// `message` is all that most SDKs show.
void AddError(JsonObject& problem, std::string_view type, std::string_view code,
              std::string_view message);

// The members of a problem that has no type of its own, as RFC 9457 words it; `error` among them.
void AddBlankProblem(JsonObject& problem, int status, std::string_view title,
                     std::string_view detail);

}  // namespace recourse
