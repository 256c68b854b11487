// Moves of flows among the events: the log tells why a flow broke, where the events tell what was
// done.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/flow.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::flow_rows_test {
namespace {

class FlowRowsTest : public testing::TestWithParam<Store> {
 protected:
  // A flow of one step that breaks and is parked: rows 2 to 5 behind the epoch.
  void Park(std::string_view key, const std::string& trace, const std::string& flow) {
    NewOperation call = Call(key, trace);
    call.event.flow = flow;
    call.event.is_step = true;
    call.event.flow_name = "checkout";
    const auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    if (first_ == 0) first_ = begun->event.operation;
    Transition done = Success(begun->event);
    ASSERT_TRUE(Await(ledger_->Record(std::move(done), executor_), executor_));
    Move(begun->event, FlowPhase::kOpen, FlowPhase::kBreaking, "payments.charge failed");
    Move(begun->event, FlowPhase::kBreaking, FlowPhase::kNeedsHuman, "step 2: refused");
  }
  void Move(const Event& step, FlowPhase from, FlowPhase to, std::string reason) {
    FlowMove move{.number = step.operation,
                  .from = from,
                  .to = to,
                  .cause = FlowCause::kStuck,
                  .reason = std::move(reason)};
    ASSERT_TRUE(Await(ledger_->MoveFlow(std::move(move), executor_), executor_));
  }
  // Ids and reasons, page by page.
  std::vector<std::string> Told(EventFilter filter) {
    std::vector<std::string> told;
    filter.with_flows = true;
    for (bool more = true; more;) {
      const EventPage page = *ledger_->List(filter);
      EXPECT_LE(page.events.size() + page.flows.size(), filter.limit);
      for (const FlowMoved& moved : page.flows) {
        told.push_back(std::string(NameOf(moved.phase)) + ": " + moved.reason);
        EXPECT_EQ(moved.flow_name, "checkout");
        EXPECT_EQ(moved.steps, 1U);
        const auto is_earlier = [&](const Event& event) { return event.id < moved.id; };
        EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(page.events, is_earlier)),
                  moved.events_before);
      }
      events_ += page.events.size();
      more = page.more;
      filter.after = page.last_id;
    }
    return told;
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
  std::size_t events_ = 0;
  std::uint64_t first_ = 0;  // operation
};

const std::vector<std::string> kStory = {"BREAKING: payments.charge failed",
                                         "NEEDS_HUMAN: step 2: refused"};

TEST_P(FlowRowsTest, AListByTraceTellsWhyTheFlowMovedWhateverItsNameIs) {
  Park("a", "trace-1", "trace-1");
  Park("b", "trace-2", "named by its agent");
  Park("c", "trace-3", "trace-3");
  for (const std::size_t limit : {std::size_t{1}, std::size_t{2}, std::size_t{100}}) {
    for (const char* trace : {"trace-1", "trace-2", "trace-3"}) {
      events_ = 0;
      EXPECT_EQ(Told({.trace_id = trace, .limit = limit}), kStory) << trace << limit;
      EXPECT_EQ(events_, 2U);
    }
  }
  EXPECT_EQ(Told({.flow = "named by its agent"}), kStory);
  EXPECT_EQ(Told({}).size(), 6U);
  EXPECT_EQ(Told({.trace_id = "trace-9"}).size(), 0U);
}

TEST_P(FlowRowsTest, AListOfOperationsHoldsNoFlows) {
  Park("a", "trace-1", "trace-1");
  EXPECT_TRUE(Told({.tool = "orders.create"}).empty());
  EXPECT_TRUE(Told({.status = Status::kSuccess}).empty());
  EXPECT_TRUE(Told({.phase = Phase::kSucceeded}).empty());
  EXPECT_TRUE(Told({.operation = first_}).empty());
  EXPECT_TRUE(ledger_->List({.trace_id = "trace-1"})->flows.empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, FlowRowsTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

// Rows hold the undo's, and the index of a ledger holds both.
TEST(FlowKeyTest, KeysOfFlowsAndUndosStayWhatTheyAre) {
  EXPECT_EQ(ToHex(FlowKeyOf("agent-1", "0af7651916cd43dd8448eb211c80319c")),
            "2d6fe254d747bec04b368a1b8e466ff3626709e89867f2b9dd007acd34b0ca96");
  Digest forward{};
  for (std::size_t i = 0; i < forward.size(); ++i) forward[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(ToHex(UndoKeyOf(forward, 7)),
            "d722289f9a04f630d124de3eef3c68c0a9ab6140fd5f97330bfc9200713d37cb");
}

}  // namespace
}  // namespace recourse::flow_rows_test
