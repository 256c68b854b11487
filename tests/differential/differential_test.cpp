// The engine against what it was: the same verbs, one after another, in both. Every reply is equal,
// and every byte of every row.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <utility>

#include "filters/ledger/engine/recovery.h"
#include "tests/differential/random_verbs.h"
#include "tests/differential/reference_start.h"
#include "tests/differential/world.h"

namespace recourse::differential {
namespace {

std::uint64_t FromEnvironmentElse(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Of one life of chance.
class Pair {
 public:
  explicit Pair(std::uint64_t seed) : seed_(seed), verbs_(seed) {
    SeededRandom keys(seed);
    if (verbs_.Percent(30)) keys_ = {NewKeyLine("k1", keys), NewKeyLine("k2", keys)};
    Restart();
  }

  const std::map<std::string, int>& counts() const { return counts_; }
  void Play(int count) {
    for (step_ = 0; step_ < count && !testing::Test::HasFailure(); ++step_) {
      PassTime();
      One();
      SameText(
          [](auto& side) { return Tell(std::vector<PendingApproval>()) + Counts(side.engine()); });
      if (IsFull() || verbs_.Percent(50)) Commit();
    }
  }

 private:
  using New = Side<Engine>;
  using Old = Side<ReferenceEngine>;

  template <class Engine>
  static std::string Counts(Engine& engine) {
    std::string text = std::to_string(engine.batch_rows());
    for (const std::uint64_t ended : engine.TakeEndedClaims()) text += " " + std::to_string(ended);
    return text + (engine.is_latched() ? " latched" : "");
  }
  // Asks both and compares what they say.
  template <class Ask>
  void SameText(Ask ask) {
    const std::string is = ask(new_);
    const std::string was = ask(old_);
    EXPECT_EQ(is, was) << "seed " << seed_ << ", verb " << step_;
  }
  template <class Ask>
  auto Both(Ask ask) {
    auto is = ask(new_);
    const auto was = ask(old_);
    EXPECT_EQ(Tell(is), Tell(was)) << "seed " << seed_ << ", verb " << step_;
    return is;
  }
  bool IsFull() { return new_.engine().is_batch_full(); }

  void PassTime() {
    if (verbs_.Percent(30)) clock_.Advance(Millis(verbs_.Below(3'000)));
    if (verbs_.Percent(1)) clock_.Advance(limits::kFlowIdle + Millis(1));
    if (verbs_.Percent(1)) clock_.JumpWall(Millis(verbs_.Below(100'000)) - Millis(50'000));
    storage_.free_bytes = verbs_.Percent(5) ? verbs_.Below(8'000'000) : std::uint64_t{1} << 40;
  }

  void One() {
    const std::uint64_t chance = verbs_.Below(100);
    if (chance < 40 || !verbs_.knows_any()) return Begin(verbs_.Begin());
    if (chance < 66) return Record(verbs_.Record());
    if (chance < 74) return Decide(verbs_.Decide());
    if (chance < 82) return Move(verbs_.Move());
    if (chance < 86) return Send();
    if (chance < 93) return Mark();
    if (chance < 96) return Note();
    if (chance < 98) return Look();
    if (chance < 99) return Retire();
    if (verbs_.Percent(30)) Restart();
  }

  void Begin(NewOperation call) {
    const std::size_t client = verbs_.Below(New::kClients);
    const bool has_client = verbs_.Percent(60);
    if (has_client) {
      new_.Leave(client);
      old_.Leave(client);
    }
    NewOperation twin = call;
    if (has_client) {
      call.wait = new_.wait(client);
      twin.wait = old_.wait(client);
    }
    auto is = new_.engine().Begin(call);
    auto was = old_.engine().Begin(twin);
    EXPECT_EQ(TellStep(is), TellStep(was)) << "seed " << seed_ << ", verb " << step_;
    Count(is, "begin");
    if (!is) return;
    if (is) ++counts_["begun " + std::to_string(static_cast<int>(is->begun.kind))];
    if (is->writes_event) {  // it is given back to its sender
      EXPECT_EQ(call.event.request.has_value(), twin.event.request.has_value());
      if (call.event.request && twin.event.request) {
        EXPECT_EQ(call.event.request->body, twin.event.request->body);
      }
    }
    verbs_.Note(is->begun.event);
    const Event& event = is->begun.event;
    if (const FlowState* flow = new_.engine().flows().Find(event.caller, event.flow)) {
      verbs_.Note(*flow);
    }
  }
  template <class Step>
  static std::string TellStep(const Result<Step>& step) {
    if (!step) return Tell(step.error());
    return Tell(step->begun) + " after " + std::to_string(step->load_after_commit) +
           Tell(step->writes_event);
  }

  void Record(const Transition& transition) {
    const bool has_event = verbs_.Percent(50);
    const Event known = verbs_.Known();
    const auto done = Both([&](auto& side) {
      Transition own = transition;
      Event event = known;
      if (has_event && event.operation == own.operation) own.dispatching = &event;
      return side.engine().Record(own);
    });
    Count(done, "record");
    if (done) verbs_.Note(*done);
  }
  template <class Done>
  void Count(const Done& done, const std::string& verb) {
    ++counts_[done ? verb : verb + ": " + std::string(done.error().detail())];
  }
  void Decide(const ApprovalOrder& order) {
    const auto done = Both([&](auto& side) {
      ApprovalOrder own = order;
      return side.engine().Decide(own);
    });
    Count(done, "decide");
    if (done) verbs_.Note(done->event);
  }
  void Move(const FlowMove& move) {
    const auto done = Both([&](auto& side) {
      FlowMove own = move;
      return side.engine().MoveFlow(own);
    });
    Count(done, "move");
    if (done) verbs_.Note(*done);
  }
  // What was approved.
  void Send() {
    NewOperation call = verbs_.Begin();
    call.wait = nullptr;
    const Event& event = verbs_.KnownIn(Phase::kApproved);
    call.approved = event.operation;
    call.policy_in_force = event.approval ? event.approval->policy : Digest{};
    Begin(std::move(call));
  }
  void Mark() {
    const Event& event = verbs_.Known();
    const AttemptId id{event.operation, event.attempt};
    const bool is_read = verbs_.Percent(80);
    const auto mark = [&](auto& engine) {
      is_read ? engine.MarkAnswered(id) : engine.MarkUnread(id);
    };
    mark(new_.engine());
    mark(old_.engine());
  }
  void Note() {
    if (verbs_.Percent(50)) {
      const PolicyChange change{.cause = PolicyChange::Cause::kReload, .version = "v"};
      (void)Both([&](auto& side) { return side.engine().RecordPolicy(change); });
    } else {
      OperatorOrder order;
      order.what = verbs_.Percent(10) ? kAcceptOrder : "look";
      order.who = "ann";
      (void)Both([&](auto& side) { return side.engine().RecordOrder(order); });
    }
  }
  void Look() {
    (void)Both([](auto& side) { return side.engine().Open(0, 100); });
    (void)Both([](auto& side) { return side.engine().Claims(0, 100); });
    if (verbs_.Percent(20))
      (void)Both([](auto& side) -> Result<void> {
        if (!side.engine().AcceptRestoredBackup()) return std::unexpected(Error());
        return {};
      });
  }

  void Commit() {
    (void)Both([](auto& side) { return side.engine().Commit(); });
    SameText([](auto& side) { return Tell(side.engine().Stats()); });
    SameText([](auto& side) { return side.engine().flows().Encode(); });
    CompareRows();
    if (new_.engine().is_latched() || !verbs_.Percent(1)) return;
    storage_.fails = verbs_.Percent(20);
  }
  void CompareRows() {
    const std::uint64_t last = new_.log().last_seq();
    ASSERT_EQ(last, old_.log().last_seq());
    ASSERT_EQ(new_.log().base().first_seq, old_.log().base().first_seq);
    compared_ = std::max(compared_, new_.log().base().first_seq - 1);
    const auto is = new_.log().NewReader();
    const auto was = old_.log().NewReader();
    std::string row;
    std::string twin;
    for (; compared_ < last; ++compared_) {
      ASSERT_TRUE(is->Read(compared_ + 1, row) && was->Read(compared_ + 1, twin));
      ASSERT_EQ(row, twin) << "seed " << seed_ << ", row " << compared_ + 1;
    }
  }
  void Retire() {
    if (new_.engine().is_latched()) return;
    Commit();
    if (new_.engine().is_latched()) return;
    const LedgerRule rule{.retention = Millis(20'000 + verbs_.Below(100'000)),
                          .tombstones = Millis(50'000 + verbs_.Below(200'000))};
    SameText([&](auto& side) {
      const auto done = side.engine().Retire(rule);
      if (!done) return Tell(done.error());
      return std::to_string(done->rows) + Tell(done->more) + Tell(done->is_late);
    });
    CompareRows();
    clock_.Advance(Millis(20'000));
  }
  // As after a kill; a key may be missing then.
  void Restart() {
    storage_.fails = false;
    std::string ring;
    if (!keys_.empty()) ring = verbs_.Percent(10) ? keys_[1] : keys_[0] + keys_[1];
    const bool is_restored = verbs_.Percent(10);
    ASSERT_TRUE(new_.Open(ring, is_restored)) << "seed " << seed_ << ", verb " << step_;
    ASSERT_TRUE(old_.Open(ring, is_restored));
    CompareRows();
  }

  std::map<std::string, int> counts_;
  const std::uint64_t seed_;
  RandomVerbs verbs_;
  int step_ = 0;
  std::vector<std::string> keys_;
  ManualClock clock_;
  Storage storage_;
  New new_{clock_, storage_, &StartEngine};
  Old old_{clock_, storage_, &StartReference};
  std::uint64_t compared_ = 0;
};

TEST(DifferentialTest, EveryReplyAndEveryByteIsWhatItWas) {
  constexpr int kVerbs = 1'000;
  const std::uint64_t first = FromEnvironmentElse("RECOURSE_FIRST_SEED", 1);
  const std::uint64_t seeds = FromEnvironmentElse("RECOURSE_SEEDS", 20);
  std::map<std::string, int> counts;
  for (std::uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    Pair pair(seed);
    pair.Play(kVerbs);
    for (const auto& [what, many] : pair.counts()) counts[what] += many;
  }
  for (const auto& [what, many] : counts) std::cout << many << " " << what << "\n";
}

}  // namespace
}  // namespace recourse::differential
