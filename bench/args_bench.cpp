// The part of a key that grows with the body: reading 1 KiB of JSON, its canonical text, its hash.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/published_request.h"
#include "proxy/base/hash.h"
#include "proxy/base/json.h"

namespace recourse::bench {
namespace {

void ParseBody(benchmark::State& state) {
  const std::string body = OrderBody();
  for (auto _ : state) benchmark::DoNotOptimize(ParseJson(body));
}
BENCHMARK(ParseBody);

void CanonicalBody(benchmark::State& state) {
  const std::string body = OrderBody();
  const Result<Json> json = ParseJson(body);
  if (!json) {
    state.SkipWithError("the body was refused");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(CanonicalJson(*json));
}
BENCHMARK(CanonicalBody);

void HashBody(benchmark::State& state) {
  const std::string body = OrderBody();
  for (auto _ : state) benchmark::DoNotOptimize(Sha256(body));
}
BENCHMARK(HashBody);

}  // namespace
}  // namespace recourse::bench
