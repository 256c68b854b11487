// From authority, method and path to a tool: ten routes and ten thousand have to cost the same.
#include <benchmark/benchmark.h>

#include <string>

#include "policy/language/loader.h"
#include "policy/model/route_table.h"

namespace recourse::bench {
namespace {

std::string PolicyWithRoutes(int count) {
  std::string yaml =
      "version: 1\nunlisted: { reads: pass, writes: deny }\n"
      "backends:\n  shop: { url: \"http://127.0.0.1:8080\" }\ntools:\n";
  for (int i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    yaml += "  shop.tool" + number + ": { match: \"GET shop /area" + number +
            "/{id}/items\", effect: read }\n";
  }
  return yaml;
}

void MatchRoute(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  const LoadedPolicy loaded = LoadPolicyText("bench.yaml", PolicyWithRoutes(count));
  if (!loaded.ok()) {
    state.SkipWithError(loaded.problems.empty() ? "?" : loaded.problems[0].message.c_str());
    return;
  }
  const RouteTable table(*loaded.policy);
  const std::string path = "/area" + std::to_string(count / 2) + "/order-17/items";
  std::string scratch;
  for (auto _ : state) {
    const Backend* backend = table.FindBackend("127.0.0.1:8080", 80);
    const auto match = table.Match(*backend, "GET", path, scratch);
    if (!match || match->tool == nullptr) state.SkipWithError("the path matched no tool");
    benchmark::DoNotOptimize(match);
  }
}
BENCHMARK(MatchRoute)->Arg(10)->Arg(10'000);

}  // namespace
}  // namespace recourse::bench
