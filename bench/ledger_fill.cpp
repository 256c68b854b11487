// Fills a ledger with operations that have ended, through the ledger of the product but without
// HTTP: twenty million calls through the proxy take hours. The rows are those of `bench.order` in
// conf/recourse.yaml. Ends without closing the ledger, which then looks as it does after kill -9.
//
// usage: ledger_fill DIRECTORY OPERATIONS BODY_BYTES ANSWER_BYTES MAP_GIB
// BODY_BYTES 0: the backend knows no keys, so that its requests are not kept.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/ledger_calls.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "proxy/base/log/log.h"
#include "proxy/base/random.h"
#include "proxy/startup/ledger_secrets.h"

namespace recourse::bench {
namespace {

// As many calls at once as one commit takes.
constexpr int kClients = 1'024;
constexpr std::uint64_t kToldEvery = 1'000'000;

struct Options {
  std::string directory;
  std::uint64_t operations = 0;
  std::size_t body_bytes = 0, answer_bytes = 0;
  std::uint64_t map_bytes = 0;
};

[[noreturn]] void DieOf(const std::string& what) {
  std::fprintf(stderr, "ledger_fill: %s\n", what.c_str());
  std::exit(1);
}

class Filler {
 public:
  Filler(const Options& options, Ledger& ledger, MainThread& thread)
      : options_(options), ledger_(ledger), thread_(thread) {}

  void Run() {
    int at_work = kClients;
    for (int i = 0; i < kClients; ++i) Spawn(Work(), [&at_work] { --at_work; });
    thread_.RunUntil([&at_work] { return at_work == 0; });
  }

 private:
  Task<void> Work() {
    while (next_ < options_.operations) {
      const std::uint64_t number = ++next_;
      co_await Write(number);
      if (number % kToldEvery == 0) {
        std::fprintf(stderr, "  %llu operations\n", static_cast<unsigned long long>(number));
      }
    }
  }

  Task<void> Write(std::uint64_t number) {
    auto begun = co_await ledger_.Begin(Call(number), thread_);
    if (!begun) DieOf("an operation was refused: " + std::string(begun.error().detail()));
    if (begun->kind != Begun::Kind::kFresh) DieOf("the directory holds such operations already");
    if (!co_await begun->commit->Durable()) DieOf("a commit failed");
    const AttemptId attempt{begun->event.operation, begun->event.attempt};
    if (!co_await ledger_.Record(OutcomeOf(begun->event, options_.answer_bytes), thread_))
      DieOf("a commit failed");
    ledger_.MarkAnswered(attempt);
  }

  NewOperation Call(std::uint64_t number) const {
    NewOperation call = CallOf(number);
    if (options_.body_bytes > 0) KeepRequest(call.event);
    call.may_resend = options_.body_bytes > 0;
    return call;
  }

  void KeepRequest(Event& event) const {
    event.dedupe_domain = 1;
    event.request = RenderedRequest{
        "POST",
        "/orders",
        {{"Accept", "*/*"}, {"Content-Type", "application/json"}, {"Idempotency-Key", "{key}"}},
        std::string(options_.body_bytes, 'x')};
  }

  const Options& options_;
  Ledger& ledger_;
  MainThread& thread_;
  std::uint64_t next_ = 0;
};

void Fill(const Options& options) {
  SetLogLevel(LogLevel::kError);
  SystemRandom random;
  SystemClock clock;
  LedgerSecretFiles secrets(options.directory, "", "", random);
  const auto ledger = OpenLmdbLedger(
      {.directory = options.directory,
       .map_bytes = options.map_bytes,
       .unsafe_fs = true,
       .secrets = [&secrets](const LedgerFacts& facts) { return secrets.Load(facts); }},
      clock);
  if (!ledger) DieOf(ledger.error());
  MainThread thread;
  Filler(options, **ledger, thread).Run();
  ::_exit(0);
}

}  // namespace
}  // namespace recourse::bench

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fputs("usage: ledger_fill DIRECTORY OPERATIONS BODY_BYTES ANSWER_BYTES MAP_GIB\n", stderr);
    return 2;
  }
  recourse::bench::Fill({.directory = argv[1],
                         .operations = std::strtoull(argv[2], nullptr, 10),
                         .body_bytes = std::strtoul(argv[3], nullptr, 10),
                         .answer_bytes = std::strtoul(argv[4], nullptr, 10),
                         .map_bytes = std::strtoull(argv[5], nullptr, 10) << 30U});
}
