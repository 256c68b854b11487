// What of a backend's answer is kept for replays. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/upstream.h"
#include "policy/template/template.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// The fields that are kept without being named: those that give the body its meaning, say where
// things are, and say when to come again.
bool IsKeptField(std::string_view name);

// The answer as it is kept: only listed fields, without the values at `redact`. Where something was
// taken out, the field Recourse-Redacted names it. `keep_headers` are further fields, in any case.
// nullopt: a body that has to be redacted cannot be read as JSON, so nothing of the answer is kept.
std::optional<HttpResponse> StoredResponse(const HttpResponse& response,
                                           const std::vector<std::string>& keep_headers,
                                           const std::vector<Selector>& redact);

// The same of an answer that is a message of its protocol, too: `redact` reads its output
// (Codec::Redact). nullopt also when a value that has to be taken out may be left in it.
std::optional<HttpResponse> StoredResponse(const Answer& answer,
                                           const std::vector<std::string>& keep_headers,
                                           const std::vector<Selector>& redact);

// What of an answer that was no success is kept and shown for people: the first kSaidBytesMax of
// its body, at the end of a character.
void CutToSaid(HttpResponse& kept);

}  // namespace recourse
