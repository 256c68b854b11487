// What the lanes ask of a request's head beside its target. Pure.
#pragma once

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {

// Of its path, with the "?"; empty: there is none.
std::string_view QueryOf(const Head& head);

bool HasBody(const Head& head);

// A server that looks for no body here would take its bytes for the next request: this is the last
// one on its connection.
bool HasUnexpectedBody(const Head& head);

// The trace id that its traceparent begins with: 32 digits of lower-case hex. Empty: it has none.
std::string_view TraceIdOf(const Head& head);

// A message to us about the agent's flow, whatever request carries it.
bool HasFlowOrder(const Head& head);

// The fields that a policy names, and those that were in force before it: sorted, in lower case.
std::vector<std::string> FieldsReadBy(const Policy& policy,
                                      const std::vector<std::weak_ptr<const Policy>>& earlier);

// What of the client's head goes on with a write, and what policies may read besides: fields that
// say who calls, and `fields_read`, of FieldsReadBy. A snapshot taken before the body is read,
// so that a trailer can never pose as a header.
Headers EndToEndFields(const Head& head, const std::vector<std::string>& fields_read);

}  // namespace recourse
