// What of a request is stored to be sent later, or again, and under which promise. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "policy/model/policy.h"
#include "policy/template/template.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// `rendered` for the backend, without its credentials but for the fields that the tool's policy
// keeps of the call (`from_call`). nullopt: the tool's `redact` names something of the call, which
// is never stored, and what is left would be another request.
std::optional<RenderedRequest> StoredRequest(const Tool& tool, HttpRequest rendered);

// What a backend promises when it de-duplicates by key (Event::dedupe_domain); 0: nothing. Two
// backends, or one with keys in two places or forms, know nothing of each other's keys.
std::uint64_t DedupeDomain(const Backend& backend, const KeyRule& rule);

}  // namespace recourse
