// Asks a running MCP server for its tools, in the protocol of either era: `recourse policy import
// mcp`. Blocking.
#pragma once

#include <expected>
#include <functional>
#include <string>

#include "policy/import/mcp_import.h"
#include "proxy/base/clock.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// Sends one request and gives its answer, or as much of it as `is_enough` asks for. The error is a
// line for people.
using IsEnough = std::function<bool(const HttpResponse& so_far)>;
using McpExchange = std::function<std::expected<HttpResponse, std::string>(
    const HttpRequest& request, const IsEnough& is_enough)>;

// `path` is the endpoint; `headers` go with every request. Fails with a line that says what the
// server answered in place of its tools.
std::expected<McpServerInfo, std::string> AskForMcpTools(const std::string& path,
                                                         const Headers& headers,
                                                         const McpExchange& exchange);

struct McpImport {
  std::string url;
  std::string header_file;  // "Name: value" lines that go with every request; empty: none
  std::string ca_file;      // trusted in place of the system's store; empty: that
  std::string policy;  // says whether the server's declarations are believed; empty: they are not
  Millis patience;     // for all of it
};

// Prints the policy; the exit code.
int RunImportMcp(const McpImport& import);

}  // namespace recourse
