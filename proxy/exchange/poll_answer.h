// What an agent is told that asks what became of a call of its own that waited for a human. Pure.
#pragma once

#include <string_view>

#include "filters/ledger/model/event.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// waiting, approved, running, unknown, finished, not_executed, rejected, expired, compensated.
std::string_view ApprovalStatus(Phase phase);

// 200 with JSON: the status, and the outcome with the backend's answer once there is one. Nothing
// of who decides, and of no other call. Without `may_see`, for other credentials than the call's,
// how it stands and nothing that the backend said.
HttpResponse PollAnswer(const Event& event, bool may_see);

}  // namespace recourse
