// What sealing costs: one event with a 1 KiB answer as a row, in clear and sealed.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/random.h"

namespace recourse::bench {
namespace {

Event MakeEvent() {
  Event event;
  event.id = event.operation = 1;
  event.phase = Phase::kSucceeded;
  event.tool = "orders.create";
  event.backend = "orders";
  event.trace_id = std::string(32, 'a');
  event.path = "/orders";
  event.answer_kept = true;
  event.answer = {201, "Created", {{"Content-Type", "application/json"}}, std::string(1024, 'x')};
  event.undo = RenderedRequest{"DELETE", "/orders/7", {}, ""};
  return event;
}

std::shared_ptr<LedgerKeys> Keys() {
  static SystemRandom random;
  return std::make_shared<LedgerKeys>(*KeyRing::Parse(NewKeyLine("k1", random)), random);
}

// Argument: 1 sealed, 0 in clear.
void WriteRow(benchmark::State& state) {
  const Event event = MakeEvent();
  RowEncryptor sealer(Keys());
  std::string row;
  for (auto _ : state) {
    row.clear();
    AppendEventRow(row, event, {}, state.range(0) == 1 ? &sealer : nullptr);
    benchmark::DoNotOptimize(row.data());
  }
}
BENCHMARK(WriteRow)->Arg(0)->Arg(1);

void ReadRow(benchmark::State& state) {
  const auto keys = Keys();
  RowEncryptor sealer(keys);
  RowDecryptor opener(keys);
  std::string row;
  AppendEventRow(row, MakeEvent(), {}, state.range(0) == 1 ? &sealer : nullptr);
  Event event;
  for (auto _ : state) {
    const auto view = ParseRow(row);
    if (!view || !DecodeEvent(*view, AnswerPart::kLoad, opener, event)) {
      state.SkipWithError("the row was not read");
    }
    benchmark::DoNotOptimize(event);
  }
}
BENCHMARK(ReadRow)->Arg(0)->Arg(1);

}  // namespace
}  // namespace recourse::bench
