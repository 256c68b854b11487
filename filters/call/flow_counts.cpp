#include "filters/call/flow_counts.h"

#include <fmt/format.h>

namespace recourse {

namespace {

namespace flow_count_members {

constexpr JsonMember<FlowCounts> kMembers[] = {
    member::Number<&FlowCounts::writes>("writes"),
    member::Number<&FlowCounts::without_trace>(
        "without_trace", "Of those: nothing named their flow, so that each is one of one step"),
};

}  // namespace flow_count_members
}  // namespace

std::string ToJson(const FlowCounts& counts) {
  return ObjectText(
      [&](JsonObject& json) { WriteMembers(json, flow_count_members::kMembers, counts); });
}

JsonShape FlowCountsShape() {
  return {"FlowCounts", "Since the start of the process", DocsOf(flow_count_members::kMembers)};
}

std::string FlowCountsText(const Json& answer) {
  const Json* const counts = answer.Find("flow_counts");
  if (counts == nullptr || ScalarText(*counts, "without_trace") == "0") return {};
  return fmt::format("{} of {} writes came without a trace: they are flows of one step",
                     ScalarText(*counts, "without_trace"), ScalarText(*counts, "writes"));
}

}  // namespace recourse
