// What names a write: reading its body of 1 KiB, and its key from an identity or from all
// arguments.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/key/key.h"

namespace recourse::bench {
namespace {

HttpRequest Order() {
  const std::string opening = R"({"order_id":"0000000000000001","text":")";
  return {"POST",
          "/orders",
          {{"Content-Type", "application/json"},
           {"Accept", "*/*"},
           {"User-Agent", "python-requests/2.28.1"},
           {"Accept-Encoding", "gzip, deflate"},
           {"Authorization", "Bearer 0123456789abcdef0123456789abcdef"},
           {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
          opening + std::string(1024 - opening.size() - 2, 'x') + "\"}"};
}

void ReadBody(benchmark::State& state) {
  const HttpRequest request = Order();
  for (auto _ : state) {
    const Result<CallBody> body = ReadCallBody(request);
    if (!body) state.SkipWithError("the body was not read");
    benchmark::DoNotOptimize(body);
  }
}
BENCHMARK(ReadBody);

// Argument: 1 with an identity of the policy, 0 from all arguments.
void WriteKey(benchmark::State& state) {
  const HmacKey secret(std::string(32, 's'));
  const std::string name = "bench.order", caller = "local", path = "/orders", unverified;
  const HttpRequest request = Order();
  const std::vector<std::pair<std::string, std::string>> none;
  Tool tool;
  if (state.range(0) == 1) tool.identity = {*ParseSelector("body#/order_id")};
  const std::vector<Caller::Earlier> earlier;
  const PrincipalRule usual;
  TraceContext trace;
  trace.trace_id = "0af7651916cd43dd8448eb211c80319c";
  trace.from_client = true;
  const Result<CallBody> body = ReadCallBody(request);
  for (auto _ : state) {
    const Result<DerivedKey> key = DeriveKey({secret, tool, name, caller, unverified, earlier, name,
                                              usual, trace, request, path, none, none, *body});
    if (!key) state.SkipWithError("no key was made");
    benchmark::DoNotOptimize(key);
  }
}
BENCHMARK(WriteKey)->Arg(1)->Arg(0);

}  // namespace
}  // namespace recourse::bench
