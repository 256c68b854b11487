#include "filters/call/flow_counts.h"

#include <fmt/format.h>

#include "proxy/base/json/json_object.h"

namespace recourse {

std::string ToJson(const FlowCounts& counts) {
  return ObjectText([&](JsonObject& json) {
    json.Number("writes", counts.writes);
    json.Number("without_trace", counts.without_trace);
  });
}

std::string FlowCountsText(const Json& answer) {
  const Json* const counts = answer.Find("flow_counts");
  if (counts == nullptr || ScalarText(*counts, "without_trace") == "0") return {};
  return fmt::format("{} of {} writes came without a trace: they are flows of one step",
                     ScalarText(*counts, "without_trace"), ScalarText(*counts, "writes"));
}

}  // namespace recourse
