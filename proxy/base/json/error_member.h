// The member `error` of our problem documents, beside those of RFC 9457: SDKs of APIs look there,
// and Stripe's takes an answer without it for a success, whatever its status.
#pragma once

#include <string_view>
#include <vector>

#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_shape.h"

namespace recourse {

// What SDKs call an error of this status.
std::string_view ErrorTypeOf(int status);

// `message` is all that most SDKs show.
void AddError(JsonObject& problem, std::string_view type, std::string_view code,
              std::string_view message);

// A problem that has no type of its own, as RFC 9457 words it.
struct BlankProblem {
  int status = 0;
  std::string_view title;
  std::string_view detail;
};
// Its members, `error` among them.
void AddBlankProblem(JsonObject& json, const BlankProblem& problem);
// Those members as a schema has them, where the status may be any that `status_schema` takes.
std::vector<MemberDoc> BlankProblemDocs(std::string_view status_schema);
std::vector<JsonShape> ProblemShapes();

}  // namespace recourse
