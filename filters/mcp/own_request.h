// The requests that Recourse itself sends to an MCP server. Pure.
#pragma once

#include <string>
#include <string_view>

#include "filters/mcp/mcp_request.h"
#include "filters/upstream.h"

namespace recourse {

// `request`, a call read as `call`, as Recourse sends it: under `id` (JSON), as in one session two
// requests of one id get each other's answers; a modern call with the fields and the `_meta` that
// its protocol asks for, where it lacks them.
HttpRequest OwnCall(HttpRequest request, const McpRequest& call, std::string_view id);

// True when the server no longer knows the session that the request named, or asks for one: nothing
// was executed.
bool IsSessionLost(const Answer& answer);

// The requests of a session of our own, with the credentials of `call`. `id` is JSON.
HttpRequest InitializeRequest(const HttpRequest& call, std::string_view id);
HttpRequest InitializedRequest(const HttpRequest& call);
HttpRequest EndSessionRequest(const HttpRequest& call);
// GET for the rest of a stream that was cut behind `last_event_id`.
HttpRequest ResumeRequest(const HttpRequest& call, const std::string& last_event_id);

// `call` in the session that `initialized`, the answer to InitializeRequest, has opened.
HttpRequest InSession(HttpRequest call, const Answer& initialized);

}  // namespace recourse
