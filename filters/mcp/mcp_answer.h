// What an MCP server answers, as the ledger keeps it, and as agents get it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "proxy/base/json/json.h"

namespace recourse {

// What a server has sent, as JSON. Servers that cut texts in the middle of a character send halves
// of it (lone surrogates), which no strict reader takes: those are replaced in `text` by U+FFFD, as
// the call has been executed all the same. nullopt: it is not JSON in one reading.
std::optional<Json> ReadMcpJson(std::string& text);

// True for a response, as opposed to a request or a notification of the server. `id` as in
// McpRequest: only the response with that id; empty: any.
bool IsMcpResponse(const Json& message, std::string_view id);

// The kind of a response, and its text without id: {"jsonrpc":"2.0","result":{...}}.
FinalMessage ReadMcpFinal(const Json& response, std::string_view text);

// True for the `message` of a FinalMessage.
bool IsKeptMcpMessage(std::string_view body);
// The same as the response to `id`.
std::string WithMcpId(std::string_view kept, std::string_view id);

// What `answer.body#` of the policy reads: structuredContent, else the first text content when that
// is a JSON object or array. nullopt: neither.
std::optional<Json> McpToolOutput(const Json& message);

// What is kept of a call that is known to be executed, but not with what answer; and the text of
// such a message, empty for every other.
std::string McpOfLostAnswer(std::string_view external_ref);
std::string TextOfLostAnswer(std::string_view message);

// The words of a failure: the first text content of an `isError`, or the error's message; bounded.
std::string McpFailureText(const Json& message);

}  // namespace recourse
