// A message of an MCP client as its policy needs it. Pure.
//
// The body alone decides what a call is. The header fields of the modern protocol are a hint for
// others on the way, and one that says something else than the body is refused.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/mcp/param_fields.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

// The wire of up to 2025-11-25 (sessions, a GET stream) and of 2026-07-28 (each call is one POST).
enum class McpEra : std::uint8_t { kLegacy, kModern };

inline constexpr std::string_view kModernMcp = "2026-07-28";

struct McpRequest {
  enum class Kind : std::uint8_t {
    kToolCall,  // tools/call: its tool decides
    kRead,      // initialize, ping, tools/list, resources/read, ...
    kWrite,     // tasks/update, tasks/cancel, and every method that is not known
    kPass,      // a notification, or a response to a request of the server
  };
  Kind kind = Kind::kWrite;
  McpEra era = McpEra::kLegacy;
  std::string id;             // as it came: `7`, `"a"`; empty: no answer is expected
  std::string method;         // empty: a response
  std::string tool;           // params.name of tools/call
  Json arguments;             // params.arguments; an empty object when there are none
  std::string request_state;  // params.requestState; empty: none
  std::string traceparent;    // params._meta.traceparent
  std::string intent;         // params._meta["dev.recourse/intent"]
  std::string task;           // params.taskId of tasks/...
  bool wants_task = false;    // a tools/call of 2025-11-25 that takes nothing but a task for answer
};

// Why a body is no message that can be passed on, as JSON-RPC says it.
struct McpRefusal {
  int status = 400;
  int code = -32600;
  std::string message;
  std::string id = "null";  // as it came, when it could be read
};

// More than one: a batch. Refused: a Content-Encoding, another charset than UTF-8, two Content-Type
// fields (-32600), what is not JSON in one reading (-32700, or -32600 for a member
// that is there twice, also in another case: many decoders take either), no JSON-RPC 2.0, an id
// that is neither text nor number, a method that some server takes for a known one, no id although
// it is no notification, no or an empty tool name, arguments that are no object, an empty batch,
// one of more than kBatchMax messages, or a batch with anything but kRead and kPass in it
// (-32600), a modern message whose Mcp-Method, Mcp-Name or MCP-Protocol-Version field is there
// twice or says something else than its body
// (-32020).
std::expected<std::vector<McpRequest>, McpRefusal> ReadMcpRequest(const Headers& headers,
                                                                  std::string_view body);

// Why a server that follows the modern protocol must refuse `request` although nothing in it
// contradicts the body: a field that it demands is missing, an Mcp-Param one is malformed, or one
// of `params` does not repeat its argument (-32020). For calls that may be answered without asking
// the server; nullopt: it need not, or is of before.
std::optional<McpRefusal> RefusalOfFields(const Headers& headers, const McpRequest& request,
                                          const Json& arguments,
                                          const std::vector<ParamField>& params);

// {"jsonrpc":"2.0","id":...,"error":{...}} of a refusal.
std::string RefusalBody(const McpRefusal& refusal);

}  // namespace recourse
