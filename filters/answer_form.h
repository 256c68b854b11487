// In which form an answer of a write goes on to its client. Pure.
#pragma once

#include <string_view>

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// True when the answer's body is a stream of server-sent events.
bool IsEventStream(const HttpResponse& head);

// True when the last event of `events` says that no other follows: `data: [DONE]`, as the APIs of
// language models have it. Their clients look no further.
bool EndsStream(std::string_view events);

// True: the client gets it piece by piece as it comes; else whole, when its outcome is known. What
// is no success has nothing to stream.
bool PassesAsItComes(const Tool* tool, const HttpResponse& head);

}  // namespace recourse
