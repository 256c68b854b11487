// What the policy's webhook is told, in either form, and its signature. Pure. Nothing of a call's
// path, body or answer is in it: those are sealed in the ledger for a reason.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/ledger.h"

namespace recourse {

// "t=1790000000,v1=9f86...": the hex HMAC-SHA-256 of "1790000000." and the body.
std::string WebhookSignature(std::string_view secret, std::int64_t unix_seconds,
                             std::string_view body);

// All members (also those of a cloud_event.h), or the form of Slack's incoming webhooks
// (slack_message.h).
enum class NewsForm : std::uint8_t { kMembers, kSlack };

// A flow that needs a human; `tools` are those of its first steps, in order.
std::string NewsOfParked(const FlowState& state, const std::vector<std::string>& tools,
                         NewsForm form);
// An operation of which nobody knows whether it took effect.
std::string NewsOfUnknown(const Event& unknown, NewsForm form);
// An operation that waits for humans: `claim` has its approval.
std::string NewsOfAsked(const Event& claim, NewsForm form);

}  // namespace recourse
