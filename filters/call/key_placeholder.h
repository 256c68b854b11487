// The operation's key inside requests that are rendered before the ledger has decided which
// operation the call belongs to: a probe carries a placeholder until it is sent.
#pragma once

#include <string>

#include "filters/ledger/model/event.h"
#include "policy/model/policy.h"
#include "policy/template/template.h"

namespace recourse {

// The key under which the backend sees the operation: what the agent named at its first attempt,
// else the operation's own, in the form that the backend takes.
std::string SentKey(const Event& event, const KeyRule& rule);

// The key that its probe asks by: of a write with a mark that one.
std::string ProbeKey(const Event& event, const Tool& tool, const Backend& backend);

// False: an earlier version has sent it more than once and kept no word of the key each time, so
// that nobody knows whether it was the same.
bool WasSentUnderOneKey(const Event& event);

// Stands for the key while rendering: 64 hex digits, so no encoding changes it, and no value of a
// call equals it by chance.
const std::string& KeyPlaceholder();

// Puts `key` wherever the placeholder stands.
RenderedRequest WithKey(const RenderedRequest& request, const std::string& key);

// Whether what the request asks for is found by the key: it stands in the target, in the body, or
// in what an element of a list must have. A field may carry it for another reason, such as tracing,
// and select nothing.
bool AsksByKey(const RenderedRequest& request);

}  // namespace recourse
