// What a call of an MCP server pays for being read: its message, and the answer in either form.
#include <benchmark/benchmark.h>

#include <string>

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_request.h"
#include "filters/mcp/sse_reader.h"
#include "proxy/base/message_limits.h"

namespace recourse::bench {
namespace {

const Headers kFields{{"MCP-Protocol-Version", "2026-07-28"},
                      {"Mcp-Method", "tools/call"},
                      {"Mcp-Name", "create_order"}};

std::string Call(std::size_t text_bytes) {
  return R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"create_order",)"
         R"("arguments":{"item":"tea","amount":12,"note":")" +
         std::string(text_bytes, 'x') +
         R"("},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
         R"("io.modelcontextprotocol/clientInfo":{"name":"agent","version":"1"},)"
         R"("io.modelcontextprotocol/clientCapabilities":{}}}})";
}

void ReadMcpCall(benchmark::State& state) {
  const std::string body = Call(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const auto requests = ReadMcpRequest(kFields, body);
    if (!requests) state.SkipWithError("the call was refused");
    benchmark::DoNotOptimize(requests);
  }
}
BENCHMARK(ReadMcpCall)->Arg(100)->Arg(10'000);

// From the event of a stream to what goes to the agent under its own id.
void ReadMcpAnswer(benchmark::State& state) {
  const std::string stream =
      "event: message\nid: e1\ndata: "
      R"({"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":")" +
      std::string(static_cast<std::size_t>(state.range(0)), 'x') +
      R"("}],"structuredContent":{"id":"order-1"}}})"
      "\n\n";
  for (auto _ : state) {
    SseReader events(limits::kAnswerBytesMax);
    events.Feed(stream);
    auto event = events.Next();
    const auto json = event ? ReadMcpJson(event->data) : std::nullopt;
    if (!json || !IsMcpResponse(*json, "7")) {
      state.SkipWithError("the stream held no answer");
      break;
    }
    benchmark::DoNotOptimize(WithMcpId(ReadMcpFinal(*json, event->data).message, "8"));
  }
}
BENCHMARK(ReadMcpAnswer)->Arg(100)->Arg(10'000);

}  // namespace
}  // namespace recourse::bench
