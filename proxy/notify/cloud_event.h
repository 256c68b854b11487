// The news of a webhook as a CloudEvent 1.0 in structured mode. Pure.
#pragma once

#include <string>
#include <string_view>

namespace recourse {

inline constexpr std::string_view kCloudEventType = "application/cloudevents+json; charset=utf-8";

// `news` is one of webhook_payload.h as JSON members, or a signed head: it becomes `data`. `ledger`
// names the one that it is of. The same news told again has the same id.
std::string CloudEvent(std::string_view news, std::string_view ledger);

}  // namespace recourse
