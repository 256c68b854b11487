// HTTP messages as members of a JSON object.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_object.h"

namespace recourse {

// `headers`: pairs [name, value]; a value that carries credentials is `hidden` instead.
void WriteFields(JsonObject& json, const Headers& headers, std::string_view hidden);
// A request's target, with `hidden` for the value of each query parameter that is a credential.
std::string ShownTarget(std::string_view target, std::string_view hidden);
// `body`, or `body_base64` where it is no UTF-8.
void WriteBody(JsonObject& json, std::string_view body);

// `name`: an object with the answer's status, fields and body.
void WriteResponse(JsonObject& json, std::string_view name, const HttpResponse& answer,
                   std::string_view hidden);

}  // namespace recourse
