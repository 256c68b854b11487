#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/call_context.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// The request as it goes to the backend: own fields removed, `key` in the backend's key field,
// answers asked for unencoded so that they can be read. A call that is only logged goes out as it
// came. Pure.
HttpRequest UpstreamRequest(const RequestContext& context, const CallBody& body,
                            const std::string& key);
// Its fields alone, with room for some more.
Headers UpstreamFields(const RequestContext& context, const std::string& key);

// What the backend promises of the call's key.
const KeyRule& KeyOf(const RequestContext& context);

// Texts of ours that go into the request beside its fields: the key that the agent has not written
// itself, and the mark that the probe looks for.
PlacedTexts PlacedTextsOf(const RequestContext& context, const CallBody& body,
                          const std::string& key, const std::string& mark);
// Empty, or why one of them cannot stand in this request.
std::string_view WhyUnwritten(const RequestContext& context, const CallBody& body);

// Puts them into the request. Gives where they stand in the body, for TakeOut.
std::vector<Insertion> PutIn(const PlacedTexts& placed, HttpRequest& request);
void TakeOut(const std::vector<Insertion>& put, std::string& body);

}  // namespace recourse
