// Flows of a ledger that starts again, in each of its stores.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse {

// As it stopped, with the index lost, or not at all.
enum class FlowStore : std::uint8_t { kMemory, kLmdb, kLmdbWithoutIndex, kPostgres };

inline const char* NameOf(FlowStore store) {
  constexpr const char* kNames[] = {"Memory", "Lmdb", "LmdbWithoutIndex", "Postgres"};
  return kNames[static_cast<std::size_t>(store)];
}

class FlowTest : public testing::TestWithParam<FlowStore> {
 protected:
  FlowTest() : directory_(FastParent()) { Open(); }

  void Open() {
    if (GetParam() == FlowStore::kMemory) {
      ledger_ = MakeMemoryLedger(clock_);
      return;
    }
    if (GetParam() == FlowStore::kPostgres) {
      if (url_.empty()) url_ = FreshPostgresLedger();
      ledger_ = OpenTestPostgres(url_, clock_);
      return;
    }
    auto opened = OpenLmdbLedger(
        {.directory = directory_.data(), .map_bytes = 1U << 28, .unsafe_fs = true}, clock_);
    ASSERT_TRUE(opened) << opened.error();
    ledger_ = std::move(*opened);
  }
  void Restart() {
    if (GetParam() == FlowStore::kMemory) return;  // it has nothing to start from
    ledger_.reset();
    if (GetParam() == FlowStore::kLmdbWithoutIndex) {
      std::filesystem::remove_all(directory_.data() + "/index");
    }
    Open();
  }

  static NewOperation Step(std::string_view key, std::string_view flow = "flow-1") {
    NewOperation call = Call(key, flow);
    call.event.is_step = true;
    return call;
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  Event Dispatch(NewOperation call) {
    const Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Begun::Kind::kFresh);
    EXPECT_TRUE(begun.commit && Await(begun.commit->Durable(), executor_));
    return begun.event;
  }
  Result<Event> TryRecord(Transition transition) {
    return Await(ledger_->Record(std::move(transition), executor_), executor_);
  }
  Event Record(Transition transition) {
    auto event = TryRecord(std::move(transition));
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  // A step that had its effect and can be undone.
  Event Done(std::string_view key, std::string_view flow = "flow-1") {
    Transition transition = Success(Dispatch(Step(key, flow)));
    transition.undo = RenderedRequest{"DELETE", "/orders/7", {}, ""};
    return Record(std::move(transition));
  }
  Result<FlowState> TryMove(std::uint64_t number, FlowPhase from, FlowPhase to,
                            FlowCause cause = FlowCause::kHuman) {
    return Await(
        ledger_->MoveFlow(
            {.number = number, .from = from, .to = to, .cause = cause, .reason = "because"},
            executor_),
        executor_);
  }
  FlowState MoveTo(std::uint64_t number, FlowPhase from, FlowPhase to) {
    auto state = TryMove(number, from, to);
    EXPECT_TRUE(state) << (state ? "" : state.error().detail());
    return state ? std::move(*state) : FlowState();
  }
  std::vector<FlowState> Flows() {
    auto flows = Await(ledger_->Flows(0, 100, executor_), executor_);
    EXPECT_TRUE(flows);
    return flows ? std::move(*flows) : std::vector<FlowState>();
  }
  static NewOperation UndoOf(const Event& step) {
    NewOperation call = Call("", step.flow);
    call.event.key = UndoKeyOf(step.key, step.operation);
    call.event.undoes = step.operation;
    call.may_resend = true;
    return call;
  }
  std::optional<FlowState> Find(std::uint64_t number) {
    auto found = ledger_->FindFlow(number);
    EXPECT_TRUE(found);
    return found ? std::move(*found) : std::nullopt;
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  TempDirectory directory_;
  std::string url_;  // of PostgreSQL
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace recourse
