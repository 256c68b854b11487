// A message of an MCP client is read one way or refused. Input: the names of a protocol version and
// of a tool, a line break after each, the body.
#include <algorithm>
#include <string>

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_request.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {
namespace {

std::string_view TakeLine(std::string_view& bytes) {
  const auto end = std::min(bytes.find('\n'), bytes.size());
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return line;
}

void CheckAnswer(std::string_view bytes) {
  // What answers hold is read without trust, too.
  std::string text(bytes);
  const auto message = ReadMcpJson(text);
  if (!message || !IsMcpResponse(*message, {})) return;
  const FinalMessage final = ReadMcpFinal(*message, text);
  const auto kept = ParseJson(final.message);
  RC_CHECK(kept && IsMcpResponse(*ParseJson(WithMcpId(final.message, "1")), "1"));
  (void)McpToolOutput(*kept);
  (void)McpFailureText(*kept);
}

}  // namespace

void FuzzOne(std::string_view bytes) {
  Headers headers;
  headers.emplace_back("MCP-Protocol-Version", TakeLine(bytes));
  headers.emplace_back("Mcp-Name", TakeLine(bytes));
  CheckAnswer(bytes);
  const auto requests = ReadMcpRequest(headers, bytes);
  if (!requests) {
    RC_CHECK(ParseJson(RefusalBody(requests.error())).has_value());
    return;
  }
  RC_CHECK(!requests->empty());
  for (const McpRequest& request : *requests) {
    const bool is_asked = request.kind != McpRequest::Kind::kPass;
    RC_CHECK(!is_asked || !request.id.empty());
    if (request.kind == McpRequest::Kind::kToolCall) {
      RC_CHECK(requests->size() == 1);
      RC_CHECK(!request.tool.empty() && request.arguments.kind == Json::Kind::kObject);
    }
    if (request.id.empty()) continue;
    const auto answer = ParseJson(WithMcpId(R"({"jsonrpc":"2.0","result":{}})", request.id));
    RC_CHECK(answer && IsMcpResponse(*answer, request.id));
  }
}

}  // namespace recourse
