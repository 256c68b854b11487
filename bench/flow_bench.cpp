// What a flow adds to a write, and what many open flows cost: checkpoint, start, memory.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <chrono>
#include <memory>
#include <string>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/model/open_flows.h"

namespace recourse::bench {
namespace {

NewOperation CallOf(std::uint64_t number, bool is_step) {
  NewOperation call;
  call.event.key = Sha256(std::to_string(number));
  call.event.tool = "orders.create";
  call.event.backend = "orders";
  call.event.caller = "local";
  call.event.trace_id = std::to_string(number / 3) + std::string(24, 'a');
  call.event.flow = call.event.trace_id;
  call.event.policy_version = "0123456789abcdef";
  call.event.method = "POST";
  call.event.path = "/orders";
  call.event.is_step = is_step;
  return call;
}

// Argument: 1 with flows of three steps, 0 without. One write: begun, recorded, two commits.
void Write(benchmark::State& state) {
  const SystemClock clock;
  auto engine = StartEngine(
      {.resources = nullptr, .log = std::make_unique<MemoryEventLog>(), .cold = nullptr}, clock);
  std::uint64_t number = 0;
  for (auto _ : state) {
    NewOperation call = CallOf(number++, state.range(0) == 1);
    auto begun = (*engine)->Begin(call);
    (void)(*engine)->Commit();
    Transition transition;
    transition.operation = begun->begun.event.operation;
    transition.attempt = 1;
    transition.to = Phase::kSucceeded;
    transition.undo = RenderedRequest{"DELETE", "/orders/7", {}, ""};
    benchmark::DoNotOptimize((*engine)->Record(transition));
    (void)(*engine)->Commit();
  }
}
BENCHMARK(Write)->Arg(0)->Arg(1)->Iterations(100'000);

// So many open flows of three steps each, every step sent and then answered.
void Fill(OpenFlows& book, std::int64_t flows) {
  std::uint64_t row = 0;
  for (std::int64_t step = 0; step < flows * 3; ++step) {
    const std::string flow = std::to_string(step / 3) + std::string(24, 'a');
    StepUpdate news{.row = ++row,
                    .wall_ms = 0,
                    .operation = row,
                    .phase = Phase::kDispatching,
                    .attempt = 1,
                    .has_undo = true,
                    .undoes = 0,
                    .has_deadline = true,
                    .caller = "local",
                    .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                    .flow = flow,
                    .flow_name = "checkout",
                    .policy_version = "0123456789abcdef"};
    book.Apply(news, MonoTime());
    news.row = ++row;
    news.phase = Phase::kSucceeded;
    book.Apply(news, MonoTime());
  }
}

// Argument: open flows, of three steps each. Bytes of memory and of the checkpoint per flow.
void Checkpoint(benchmark::State& state) {
  const std::size_t before = mallinfo2().uordblks;
  OpenFlows book;
  Fill(book, state.range(0));
  if (book.size() != static_cast<std::size_t>(state.range(0))) state.SkipWithError("no flows");
  const std::size_t after = mallinfo2().uordblks;
  std::size_t bytes = 0;
  for (auto _ : state) {
    const std::string encoded = book.Encode();
    bytes = encoded.size();
    benchmark::DoNotOptimize(encoded.data());
  }
  const auto flows = static_cast<double>(state.range(0));
  state.counters["memory/flow"] = static_cast<double>(after - before) / flows;
  state.counters["bytes/flow"] = static_cast<double>(bytes) / flows;
}
BENCHMARK(Checkpoint)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

void Start(benchmark::State& state) {
  OpenFlows book;
  Fill(book, state.range(0));
  const std::string encoded = book.Encode();
  for (auto _ : state) {
    OpenFlows restored;
    if (!restored.Decode(encoded, MonoTime())) state.SkipWithError("not read");
    benchmark::DoNotOptimize(restored.size());
  }
}
BENCHMARK(Start)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace recourse::bench
