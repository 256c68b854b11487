// What enforce refuses for the head of a request that has a backend; observe mode tells of the
// same. Pure.
#pragma once

#include <expected>
#include <optional>
#include <string_view>

#include "policy/model/call_refusal.h"
#include "policy/model/route_table.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {

// What only the body of a form tells.

// The call asks the backend to take another method or path than the one that was judged.
bool OverridesMethod(const Head& head, std::string_view query);

// A question about a write that its tool does not name: HEAD and OPTIONS never run one.
bool IsQuestionAboutWrite(const Head& head, const RouteMatch& match);

// `found` is what the route table says of the path; `match` means something where that is good.
// The first of several. OPTIONS of a write is none: it is answered here.
std::optional<CallRefusal> RefusalOfHead(const Policy& policy, const Head& head,
                                         const EndpointPlace& place, std::string_view query,
                                         const std::expected<void, CallRefusal>& found,
                                         const RouteMatch& match);

// The same at the endpoint of a server whose protocol has one.
std::optional<CallRefusal> RefusalAtEndpoint(const Policy& policy, const Head& head,
                                             std::string_view query);

}  // namespace recourse
