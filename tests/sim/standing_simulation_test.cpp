// Thousands of seeded runs of writes on few documents, by two principals, whose answers are late,
// lost or unknown, over the real chain and a ledger that is opened again after every kill. No
// answer from the log may be untrue when it is given, and no POST may be made twice. A failing seed
// is named and can be played again: ./dev sim --seed N
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/sim/documents.h"
#include "tests/sim/life.h"
#include "tests/support/quiet_log.h"

namespace recourse::standing_simulation_test {
namespace {

constexpr std::uint64_t kShards = 4;
constexpr std::uint64_t kSeeds = 4'000;
constexpr int kCallsOfAgent = 14;

constexpr const char* kPolicy = R"(version: 1
backends:
  docs: { url: "http://docs.test" }
tools:
  put: { match: "PUT docs /doc/{id}", effect: write, undo: none, reason: a test }
  drop: { match: "DELETE docs /doc/{id}", effect: write, undo: none, reason: a test }
  patch: { match: "PATCH docs /doc/{id}", effect: write, undo: none, reason: a test }
  make: { match: POST docs /doc, effect: write, undo: none, reason: a test }
  lock: { match: "POST docs /doc/{id}/lock", effect: write, undo: none, reason: a test }
  unlock: { match: "POST docs /doc/{id}/unlock", effect: write, undo: none, reason: a test }
)";

struct Counts {
  int calls = 0, replays = 0, superseded = 0, lives = 0;
};

class Run {
 public:
  explicit Run(std::uint64_t seed, bool is_told)
      : dice_(seed),
        is_told_(is_told),
        documents_(loop_, dice_, dice_.Percent(75) ? 5 + dice_.Below(25) : 0),
        disk_(dice_, Scale()),
        policy_(PolicyOf(kPolicy)),
        kills_(dice_.Percent(50)) {
    if (disk_.scale().rule) documents_.RememberFor(disk_.scale().rule->retention);
  }
  ~Run() {
    if (life_) Bury();
    loop_.RunAll();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void Play() {
    Live();
    for (const char* name : {"ann", "bob"}) {
      ++speaking_;
      loop_.Start(Speak(name));
    }
    while (speaking_ > 0) {
      loop_.RunFor(dice_.Time(400));
      if (kills_ && dice_.Percent(3)) life_->Kill();
      if (life_->is_dead()) {
        Bury();
        Live();
      }
    }
  }
  std::vector<std::string> Problems() const {
    std::vector<std::string> all = problems_;
    all.insert(all.end(), documents_.problems().begin(), documents_.problems().end());
    return all;
  }
  const Counts& counts() const { return counts_; }

 private:
  SimScale Scale() {
    SimScale scale;
    if (dice_.Percent(50)) scale.hot_entries_max = 4 + dice_.Below(12);
    if (dice_.Percent(20)) {
      scale.rule = {.retention = Millis(6'000) + dice_.Time(20'000), .tombstones = Millis(600'000)};
    }
    return scale;
  }
  void Live() {
    life_ = std::make_unique<Life>(loop_, dice_, documents_, disk_, policy_);
    ++counts_.lives;
    if (kills_ && dice_.Percent(60)) life_->Light(static_cast<int>(1 + dice_.Below(80)));
  }
  void Bury() {
    life_->Bury();
    documents_.Forget();
    graves_.push_back(std::move(life_));
  }
  Task<void> Sleep(Millis time) { co_await loop_.timer().SleepUntil(loop_.now() + time); }

  CallSpec AnyCall(const std::string& name) {
    static constexpr const char* kBodies[] = {R"({"x":1})", R"({"x":2})", R"({"y":1})",
                                              R"({"x":1,"y":2})"};
    CallSpec call;
    call.host = "docs.test";
    call.headers = {{"Authorization", name}};
    call.trace = dice_.Percent(15) ? "" : std::string(31, 'c') + std::to_string(dice_.Below(3));
    if (!call.trace.empty()) call.headers.emplace_back("X-Test-Trace", call.trace);
    call.body = kBodies[dice_.Below(4)];
    call.target = documents_.AnyDocument();
    switch (dice_.Below(7)) {
      case 0:
        call.method = "PUT";
        break;
      case 1:
        call.method = "DELETE";
        call.body.clear();
        call.content_type.clear();
        break;
      case 2:
      case 3:
        call.method = "PATCH";
        break;
      case 4:
        call.target = "/doc";
        call.body = kBodies[dice_.Below(2)];
        break;
      default:
        call.target += dice_.Percent(50) ? "/lock" : "/unlock";
        call.body = "{}";
    }
    return call;
  }

  Task<void> Speak(std::string name) {
    std::vector<CallSpec> made;
    for (int i = 0; i < kCallsOfAgent; ++i) {
      // Mostly something that was said before.
      const bool is_new = made.empty() || dice_.Percent(45);
      if (is_new) made.push_back(AnyCall(name));
      CallSpec call = is_new ? made.back() : made[dice_.Below(static_cast<unsigned>(made.size()))];
      // Some repeat it under another trace.
      if (!is_new && dice_.Percent(15)) {
        const std::string trace = std::string(31, 'd') + std::to_string(dice_.Below(2));
        call.headers = {{"Authorization", name}, {"X-Test-Trace", trace}};
        call.trace = trace;
      }
      co_await Make(call, name);
      co_await Sleep(dice_.Time(dice_.Percent(20) ? 4'000 : 300));
    }
    --speaking_;
  }

  Task<void> Make(const CallSpec& call, const std::string& name) {
    ++counts_.calls;
    const bool is_lost = dice_.Percent(25);
    const std::uint64_t begun = documents_.Tick();
    const int effects = documents_.effects();
    auto told = std::make_shared<Told>();
    Life* const life = life_.get();
    const std::size_t expected =
        documents_.Expect({call.method, call.target, call.body, {}, name, {}});
    life->Serve(call, told, !is_lost);
    loop_.Start(Follow(life, told, expected));
    // Some clients do not wait for long.
    const MonoTime until = loop_.now() + (is_lost ? dice_.Time(1'200) : Millis(40'000));
    while (!told->done && loop_.now() < until && life == life_.get() && !life->is_dead()) {
      co_await Sleep(Millis(20));
    }
    Leave(call, name);
    Say(call, name, *told, is_lost);
    if (!told->done) co_return;
    const auto json = ParseJson(told->body);
    const Json* const effect =
        json && json->kind == Json::Kind::kObject ? json->Find("effect") : nullptr;
    if (told->error == ErrorCode::kSuperseded) ++counts_.superseded;
    DocumentSent* const sent =
        effect == nullptr ? nullptr : documents_.Find(std::atoi(ScalarText(*effect).c_str()));
    if (sent == nullptr) co_return;
    if (!is_lost) sent->is_answered = true;
    if (!told->replayed) co_return;
    ++counts_.replays;
    // What happened before this call began is what its answer may not ignore.
    for (const DocumentSent& later : documents_.sent()) {
      if (!later.has_effect || later.effect <= sent->effect || later.effect > effects) continue;
      if (sent->begun > begun || !Supersedes(later.write, sent->write)) continue;
      problems_.push_back(
          fmt::format("{} of {} {} {}: effect {} was replayed after effect {} ({} "
                      "{} {})",
                      name, call.method, call.target, call.body, sent->effect, later.effect,
                      later.write.method, later.write.path, later.write.body));
    }
  }

  // What became of a call is what the backend says, unless it died with the process.
  Task<void> Follow(const Life* life, std::shared_ptr<Told> told, std::size_t expected) {
    while (!told->done && !life->is_dead()) co_await Sleep(Millis(10));
    if (told->done) documents_.Expected(expected, DocumentSent::End::kRejected);
  }

  // What it had sent has a client no more.
  void Leave(const CallSpec& call, const std::string& name) {
    for (DocumentSent& sent : documents_.sent()) {
      const DocumentWrite& write = sent.write;
      if (write.principal == name && write.path == call.target && write.method == call.method) {
        sent.has_client = false;
      }
    }
  }
  void Say(const CallSpec& call, const std::string& name, const Told& told, bool is_lost) const {
    if (!is_told_) return;
    std::cout << fmt::format("{} {} {} {} {} -> {} {}{}{}{}\n", documents_.effects(), name,
                             call.trace.empty() ? "-" : call.trace.substr(30), call.method,
                             call.target + " " + call.body, told.done ? told.status : 0, told.body,
                             told.replayed ? " (replay)" : "", is_lost ? " (lost)" : "",
                             told.error ? " " + std::string(FactsOf(*told.error).slug) : "");
  }

  Dice dice_;
  const bool is_told_;
  TestLoop loop_;
  Documents documents_;
  SimDisk disk_;
  std::shared_ptr<const Policy> policy_;
  const bool kills_;
  std::unique_ptr<Life> life_;
  std::vector<std::unique_ptr<Life>> graves_;
  int speaking_ = 0;
  Counts counts_;
  std::vector<std::string> problems_;
};

std::uint64_t FromEnvironmentOr(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

Counts Play(std::uint64_t seed, bool is_told) {
  Run run(seed, is_told);
  run.Play();
  for (const std::string& problem : run.Problems()) {
    ADD_FAILURE() << "seed " << seed << ": " << problem << "\nto play it again: ./dev sim --seed "
                  << seed;
  }
  return run.counts();
}

// A joined PUT was replayed over what came while it ran; a refused call, and one of another
// principal, hid the lost one from its retry. The last one was the model's mistake: a lock's
// outcome was written down after the unlock was sent, and so is later.
TEST(StandingSeedsTest, WhatWasFoundOnceIsNotFoundAgain) {
  const QuietLog quiet;
  for (const unsigned seed : {81U, 239U, 435U, 1052U, 1978U, 3013U, 17799U})
    (void)Play(seed, false);
}

class StandingSimulationTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(StandingSimulationTest, NoAnswerIsUntrueWhenItIsGivenAndNoPostIsMadeTwice) {
  const QuietLog quiet;
  const std::uint64_t only = FromEnvironmentOr("RECOURSE_SIM_SEED", 0);
  if (only != 0) {
    if (GetParam() == 0) (void)Play(only, true);
    return;
  }
  const std::uint64_t seeds = FromEnvironmentOr("RECOURSE_SIM_SEEDS", kSeeds);
  const std::uint64_t first = FromEnvironmentOr("RECOURSE_SIM_FIRST", 1);
  Counts all;
  for (std::uint64_t i = GetParam(); i < seeds && !HasFailure(); i += kShards) {
    const Counts counts = Play(first + i, false);
    all.calls += counts.calls;
    all.replays += counts.replays;
    all.superseded += counts.superseded;
    all.lives += counts.lives;
  }
  std::cout << fmt::format("{} calls, {} replays, {} superseded, {} lives\n", all.calls,
                           all.replays, all.superseded, all.lives);
  if (seeds < kSeeds) return;
  EXPECT_GT(all.replays, all.calls / 50);
  EXPECT_GT(all.superseded, 0);
}

INSTANTIATE_TEST_SUITE_P(Shard, StandingSimulationTest, testing::Range(std::uint64_t{0}, kShards));

}  // namespace
}  // namespace recourse::standing_simulation_test
