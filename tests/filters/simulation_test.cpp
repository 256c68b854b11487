// Random agents and backends over the whole chain in virtual time. A failing seed is named and
// gives the same run again.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tests/filters/calls.h"

namespace recourse {
namespace {

constexpr std::uint64_t kSeeds = 300;
constexpr int kCallsPerSeed = 30;
constexpr unsigned kIntents = 4;
// A call may arrive this late; absent_after below is longer, as the policy's author must ensure.
constexpr unsigned kLatestArrivalMs = 4'000;

constexpr const char* kPolicy = R"(
version: 1
backends:
  orders: { url: "http://orders.test:8080", hosts: [ orders.test ] }
tools:
  orders.place:
    match: POST orders /orders
    effect: write
    identity: [ body#/ref ]
    undo: none
    reason: test
    settle: { request: "GET /orders/{body#/ref}", happened: answer.body#/id, absent_after: 5s }
)";

std::string BodyOf(const std::string& ref) { return R"({"ref":")" + ref + "\"}"; }

// A shop that executes, refuses, fails and is late at random, and knows the truth.
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
  Step Write(const HttpRequest& request) {
    const std::string ref = request.body.substr(8, request.body.size() - 10);
    switch (Below(fails_ ? 10 : 1)) {
      case 1:
        return CutAfterSend();
      case 2:
        Act(ref);
        return CutAfterSend();
      case 3:
        Act(ref);
        return Hang();
      case 4:
        world_.loop.Start(ActLater(ref, Millis(Below(kLatestArrivalMs))));
        return CutAfterSend();
      case 5:
        return Respond(422, R"({"error":"no stock"})");
      case 6:
        if (Below(2) == 0) Act(ref);
        return Respond(500, "oops");
      case 7:
        return Respond(429, "later");
      case 8:
        return RefuseConnection();
      default:
        Act(ref);
        return After(Millis(Below(5'000)), Respond(201, R"({"id":")" + ref + "\"}"));
    }
  }
  Step Probe(const HttpRequest& request) {
    if (fails_ && Below(3) == 0) return Respond(500, "");
    const std::string ref = request.target.substr(request.target.rfind('/') + 1);
    return effects_[ref] > 0 ? Respond(200, R"({"id":")" + ref + "\"}") : Respond(404, "");
  }
  void Act(const std::string& ref) { ++effects_[ref]; }
  Task<void> ActLater(std::string ref, Millis delay) {
    co_await world_.loop.timer().SleepUntil(world_.loop.now() + delay);
    Act(ref);
  }

  World& world_;
  std::mt19937_64 engine_;
  std::map<std::string, int> effects_;
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

TEST(SimulationTest, NoFaultMakesASecondEffectOrALieInTheLog) {
  for (std::uint64_t seed = 1; seed <= kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(kPolicy);
    Shop shop(world, seed);
    world.StartSettler();
    std::vector<Asked> calls;
    for (int i = 0; i < kCallsPerSeed; ++i) {
      const std::string ref = "r" + std::to_string(shop.Below(kIntents));
      CallSpec call;
      call.body = BodyOf(ref);
      calls.push_back({ref, world.Start(call)});
      world.loop.RunFor(Millis(shop.Below(2) == 0 ? 0 : shop.Below(20'000)));
    }
    shop.StopFailing();
    world.loop.RunFor(Millis(300'000));
    world.ledger.MarkAnswered(0);  // any verb ends the joins of the memory ledger that are over
    world.loop.RunFor(Millis(1'000));
    ExpectTruth(world, shop, calls);
    ExpectLegalHistory(world);
  }
}

}  // namespace
}  // namespace recourse
