// What an outcome does to its flow, by the policy. Pure.
#pragma once

#include <optional>

#include "filters/ledger/ledger.h"
#include "policy/model/policy.h"

namespace recourse {

// Where an operation of this tool moves its flow when it comes to `phase`: `ends_with`,
// `canceled_by`, `breaks_flow`. nullopt: nowhere. What was not sent may be made again at once and
// is no failure.
std::optional<Transition::FlowEffect> FlowEffectOf(const Policy& policy, const Tool& tool,
                                                   Phase phase);

}  // namespace recourse
