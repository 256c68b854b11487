// What the first connection to an intercepted host pays for its certificate, and what later ones
// do.
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>

#include "proxy/net/tls/leaf_issuer.h"

namespace recourse {
namespace {

std::shared_ptr<const PodCa> NewCa(const Clock& clock, Random& random) {
  const std::string key = PodCa::NewKey();
  const auto pem = PodCa::NewCertificatePem(key,
                                            {.name = "bench",
                                             .hosts = {{"api.shop.example"}},
                                             .now = clock.WallNow(),
                                             .life = std::chrono::hours(48)},
                                            random);
  return *PodCa::Read(*pem, key);
}

// The certificate alone, for a key that is there: what a leaf costs as it is.
void BM_MintLeaf(benchmark::State& state) {
  const SystemClock clock;
  SystemRandom random;
  const auto ca = NewCa(clock, random);
  const KeyPtr key = NewP256Key();
  for (auto _ : state) {
    benchmark::DoNotOptimize(MintLeaf(*ca, *key, "api.shop.example", clock.WallNow(), random));
  }
}
BENCHMARK(BM_MintLeaf);

// With a key of its own, which is why they share one.
void BM_MintLeafAndKey(benchmark::State& state) {
  const SystemClock clock;
  SystemRandom random;
  const auto ca = NewCa(clock, random);
  for (auto _ : state) {
    const KeyPtr key = NewP256Key();
    benchmark::DoNotOptimize(MintLeaf(*ca, *key, "api.shop.example", clock.WallNow(), random));
  }
}
BENCHMARK(BM_MintLeafAndKey);

// All that the first connection to a host waits for: certificate and TLS context.
void BM_FirstLeafOfAHost(benchmark::State& state) {
  const SystemClock clock;
  SystemRandom random;
  LeafIssuer minter(clock, random);
  const auto ca = NewCa(clock, random);
  for (auto _ : state) {
    minter.Use(ca);
    benchmark::DoNotOptimize(minter.For("api.shop.example"));
  }
}
BENCHMARK(BM_FirstLeafOfAHost);

void BM_KeptLeaf(benchmark::State& state) {
  const SystemClock clock;
  SystemRandom random;
  LeafIssuer minter(clock, random);
  minter.Use(NewCa(clock, random));
  for (auto _ : state) benchmark::DoNotOptimize(minter.For("api.shop.example"));
}
BENCHMARK(BM_KeptLeaf);

}  // namespace
}  // namespace recourse
