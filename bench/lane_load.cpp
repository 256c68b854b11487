// The lane of a shared ledger without HTTP: callers that begin an operation and record its outcome,
// each durable, all over one connection. With more pods than one the others are idle.
//
// usage: lane_load URL PODS, then one line per run on the standard input:
//        CALLERS SECONDS BODY_BYTES SEED. Prints "ready", then one JSON object per run. Without
//        callers the database is asked for nothing, one round trip after the other.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/ledger_calls.h"
#include "bench/load.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/open.h"
#include "proxy/base/log/log.h"
#include "proxy/base/random.h"

namespace recourse::bench {
namespace {

constexpr PgStatement kNothing{"nothing", "SELECT 1"};

[[noreturn]] void DieOf(const std::string& what) {
  std::fprintf(stderr, "lane_load: %s\n", what.c_str());
  std::exit(1);
}

struct Run {
  int callers = 0;
  double seconds = 0;
  std::size_t body_bytes = 0;
  std::uint64_t seed = 0;
};

class Load {
 public:
  Load(const Run& run, Ledger& ledger) : run_(run), ledger_(ledger), next_(run.seed << 32U) {}

  Tally Go() {
    const std::uint64_t begin = NowNs();
    end_ = begin + static_cast<std::uint64_t>(run_.seconds * 1e9);
    int at_work = run_.callers;
    for (int i = 0; i < run_.callers; ++i) Spawn(Work(), [&at_work] { --at_work; });
    thread_.RunUntil([&at_work] { return at_work == 0; });
    tally_.elapsed_ns = NowNs() - begin;
    return tally_;
  }

 private:
  Task<void> Work() {
    for (std::uint64_t now = NowNs(); now < end_;) {
      co_await Write(++next_);
      const std::uint64_t done = NowNs();
      tally_.histogram.Add(done - now);
      now = done;
    }
  }

  Task<void> Write(std::uint64_t number) {
    NewOperation call = CallOf(number);
    call.event.is_step = true;
    auto begun = co_await ledger_.Begin(std::move(call), thread_);
    if (!begun || begun->kind != Begun::Kind::kFresh) DieOf("an operation was not begun");
    if (!co_await begun->commit->Durable()) DieOf("a commit failed");
    if (!co_await ledger_.Record(OutcomeOf(begun->event, run_.body_bytes), thread_)) {
      DieOf("an outcome was not recorded");
    }
  }

  const Run& run_;
  Ledger& ledger_;
  MainThread thread_;
  std::uint64_t next_, end_ = 0;
  Tally tally_;
};

Tally AskForNothing(const std::string& url, double seconds) {
  const auto connection = PgConnection::Open({.url = url});
  if (!connection) DieOf(connection.error().why);
  Tally tally;
  const std::uint64_t begin = NowNs();
  const std::uint64_t end = begin + static_cast<std::uint64_t>(seconds * 1e9);
  for (std::uint64_t now = begin; now < end;) {
    (*connection)->Queue(kNothing);
    if (!(*connection)->Run()) DieOf("the database does not answer");
    const std::uint64_t done = NowNs();
    tally.histogram.Add(done - now);
    now = done;
  }
  tally.elapsed_ns = NowNs() - begin;
  return tally;
}

int Serve(const std::string& url, int pods) {
  SetLogLevel(LogLevel::kError);
  static SystemRandom random;
  SystemClock clock;
  const auto keys = std::make_shared<LedgerKeys>(*KeyRing::Parse(NewKeyLine("k1", random)), random);
  std::vector<std::unique_ptr<Ledger>> all;
  for (int i = 0; i < pods; ++i) {
    auto opened = OpenPostgresLedger({.store = {.connection = {.url = url},
                                                .group = "bench/lane",
                                                .pod = "pod-" + std::to_string(i),
                                                .version = "bench",
                                                .install_id = "bench"},
                                      .keys = keys},
                                     clock);
    if (!opened) DieOf(opened.error().why);
    all.push_back(std::move(*opened));
  }
  std::puts("ready");
  std::fflush(stdout);
  Run run;
  unsigned long seed = 0;
  while (std::scanf("%d %lf %zu %lu", &run.callers, &run.seconds, &run.body_bytes, &seed) == 4) {
    run.seed = seed;
    const bool asks = run.callers == 0;
    (asks ? AskForNothing(url, run.seconds) : Load(run, *all.front()).Go()).Print();
  }
  return 0;
}

}  // namespace
}  // namespace recourse::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: lane_load URL PODS\n", stderr);
    return 2;
  }
  return recourse::bench::Serve(argv[1], std::atoi(argv[2]));
}
