// Random agents and backends over the whole chain in virtual time. A failing seed is named and
// gives the same run again.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/filters/calls.h"

namespace recourse::simulation_test {
namespace {

constexpr std::uint64_t kSeeds = 300;
constexpr int kCallsPerSeed = 30;
constexpr unsigned kIntents = 4;
constexpr unsigned kTraces = 3;
// A call may arrive this late; absent_after below is longer, as the policy's author must ensure.
constexpr unsigned kLatestArrivalMs = 4'000;

constexpr const char* kPlainBackend = R"(
version: 1
backends:
  orders: { url: "http://orders.test:8080", hosts: [ orders.test ] }
)";
constexpr const char* kDeduplicatingBackend = R"(
version: 1
backends:
  orders: { url: "http://orders.test:8080", hosts: [ orders.test ], key_header: Idempotency-Key }
)";
constexpr const char* kTools = R"(
tools:
  orders.place:
    match: POST orders /orders
    effect: write
    identity: [ body#/ref ]
    undo: none
    reason: test
    settle: { request: "GET /orders/{body#/ref}", happened: answer.body#/id, absent_after: 5s }
)";

// Every retry of an agent may carry another trace, and that of an earlier one again.
std::string TraceOf(unsigned i) { return std::string(31, 'a') + std::to_string(i + 1); }

std::string BodyOf(const std::string& ref) { return R"({"ref":")" + ref + "\"}"; }

// A shop that executes, refuses, fails and is late at random, and knows the truth. Where it is told
// a key, it decides once per key.
class Shop {
 public:
  Shop(World& world, std::uint64_t seed) : world_(world), engine_(seed) {
    world.upstream.decide = [this](const HttpRequest& request) { return Write(request); };
    world.upstream.probe = [this](const HttpRequest& request) { return Probe(request); };
  }

  unsigned Below(unsigned bound) { return static_cast<unsigned>(engine_() % bound); }
  int effects(const std::string& ref) { return effects_[ref]; }
  void StopFailing() { fails_ = false; }

 private:
  struct Order {
    std::string ref;
    std::string key;  // empty: none was told
  };

  Step Write(const HttpRequest& request) {
    const Order order{request.body.substr(8, request.body.size() - 10), KeyOf(request)};
    switch (Below(fails_ ? 10 : 1)) {
      case 1:
        return CutAfterSend();
      case 2:
        Act(order);
        return CutAfterSend();
      case 3:
        Act(order);
        return Hang();
      case 4:
        world_.loop.Start(ActLater(order, Millis(Below(kLatestArrivalMs))));
        return CutAfterSend();
      case 5:
        return Decide(order, false) ? Done(order) : Refusal();
      case 6:
        if (Below(2) == 0) Act(order);
        return Respond(500, "oops");
      case 7:
        return Respond(429, "later");
      case 8:
        return RefuseConnection();
      default:
        return Act(order) ? After(Millis(Below(5'000)), Done(order)) : Refusal();
    }
  }
  Step Probe(const HttpRequest& request) {
    if (fails_ && Below(3) == 0) return Respond(500, "");
    const std::string ref = request.target.substr(request.target.rfind('/') + 1);
    return effects_[ref] > 0 ? Respond(200, R"({"id":")" + ref + "\"}") : Respond(404, "");
  }
  static std::string KeyOf(const HttpRequest& request) {
    const std::string* key = FindHeader(request.headers, "Idempotency-Key");
    return key == nullptr ? std::string() : *key;
  }
  static Step Refusal() { return Respond(422, R"({"error":"no stock"})"); }
  static Step Done(const Order& order) { return Respond(201, R"({"id":")" + order.ref + "\"}"); }
  // What was decided first about the order's key stands.
  bool Decide(const Order& order, bool yes) {
    return order.key.empty() ? yes : decided_.emplace(order.key, yes).first->second;
  }
  bool Act(const Order& order) {
    const bool is_new = !decided_.contains(order.key);
    if (!Decide(order, true)) return false;
    if (is_new) ++effects_[order.ref];
    return true;
  }
  Task<void> ActLater(Order order, Millis delay) {
    co_await world_.loop.timer().SleepUntil(world_.loop.now() + delay);
    Act(order);
  }

  World& world_;
  std::mt19937_64 engine_;
  std::map<std::string, int> effects_;
  std::map<std::string, bool> decided_;  // by key
  bool fails_ = true;
};

struct Asked {
  std::string ref;
  std::shared_ptr<Told> told;
};

void ExpectLegalHistory(World& world) {
  std::map<std::uint64_t, Phase> phases;
  for (const Event& event : world.Events()) {
    const Phase before = phases.contains(event.operation) ? phases[event.operation] : Phase::kNone;
    EXPECT_TRUE(IsLegal(before, event.phase)) << NameOf(before) << " to " << NameOf(event.phase);
    phases[event.operation] = event.phase;
  }
  EXPECT_TRUE(world.ledger.Verify().ok);
}

void ExpectTruth(World& world, Shop& shop, const std::vector<Asked>& calls) {
  std::map<std::string, std::set<std::string>> successes;
  for (const auto& [ref, told] : calls) {
    ASSERT_TRUE(told->done);
    if (told->status >= 200 && told->status <= 299) successes[ref].insert(told->body);
  }
  for (const auto& [ref, bodies] : successes) {
    EXPECT_EQ(shop.effects(ref), 1) << "told a success of " << ref;
  }
  std::map<std::string, Event> last;
  for (const Event& event : world.Events()) last[ToHex(event.key)] = event;
  int effects_in_log = 0;
  int effects = 0;
  for (const auto& [key, event] : last) {
    EXPECT_TRUE(IsFinal(event.phase)) << NameOf(event.phase);
    if (event.status() == Status::kSuccess) ++effects_in_log;
  }
  for (unsigned i = 0; i < kIntents; ++i) {
    const int here = shop.effects("r" + std::to_string(i));
    EXPECT_LE(here, 1) << "r" << i;
    effects += here;
  }
  EXPECT_EQ(effects, effects_in_log);
}

void RunSeeds(const std::string& backends) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(backends + kTools);
    Shop shop(world, seed);
    world.StartSettler();
    std::vector<Asked> calls;
    for (int i = 0; i < kCallsPerSeed; ++i) {
      const std::string ref = "r" + std::to_string(shop.Below(kIntents));
      CallSpec call;
      call.body = BodyOf(ref);
      call.trace = TraceOf(shop.Below(kTraces));
      calls.push_back({ref, world.Start(call)});
      world.loop.RunFor(Millis(shop.Below(2) == 0 ? 0 : shop.Below(20'000)));
    }
    shop.StopFailing();
    world.loop.RunFor(Millis(300'000));
    world.ledger.MarkAnswered({});  // any verb ends the joins of the memory ledger that are over
    world.loop.RunFor(Millis(1'000));
    ExpectTruth(world, shop, calls);
    ExpectLegalHistory(world);
  }
}

TEST(SimulationTest, NoFaultMakesASecondEffectOrALieInTheLog) { RunSeeds(kPlainBackend); }

TEST(SimulationTest, NoResendMakesASecondEffectOrALieInTheLog) { RunSeeds(kDeduplicatingBackend); }

}  // namespace
}  // namespace recourse::simulation_test
