// A ledger on disk that days pass for, with retention.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rules/retention.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse {

inline constexpr Millis kDay{86'400'000};
inline const LedgerRule kRule{.retention = 7 * kDay, .tombstones = 90 * kDay};

// An engine on disk, driven step by step; every verb is committed by itself.
class Ages : public testing::TestWithParam<bool> {
 protected:
  Ages() { Open(); }

  void Open() {
    engine_.reset();
    auto parts =
        OpenLmdbParts({.directory = directory_.data(), .map_bytes = 1U << 30, .unsafe_fs = true});
    ASSERT_TRUE(parts) << parts.error();
    parts->hot_entries_max = 16;
    auto engine = StartEngine(std::move(*parts), clock_);
    ASSERT_TRUE(engine) << engine.error();
    engine_ = std::move(*engine);
  }
  // As after a kill. With the parameter the index is lost too.
  void Restart() {
    engine_.reset();
    if (GetParam()) std::filesystem::remove_all(directory_.data() + "/index");
    Open();
  }
  Begun Begin(NewOperation call) {
    auto step = engine_->Begin(call);
    EXPECT_TRUE(step) << step.error().detail();
    EXPECT_TRUE(engine_->Commit());
    Checkpoint();
    return step ? std::move(step->begun) : Begun();
  }
  static NewOperation OfIntent(std::string_view key, std::optional<Millis> window) {
    NewOperation call = Call(key);
    call.event.intent = DigestOf("intent");
    if (window) call.across_traces = AcrossTraces::kIfUnanswered;
    call.dedupe_window = window;
    return call;
  }
  Begun::Kind Repeat(std::string_view key) { return Begin(Call(key)).kind; }
  Event Dispatch(NewOperation call) {
    Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Begun::Kind::kFresh);
    return begun.event;
  }
  Event Record(Transition transition) {
    auto event = engine_->Record(transition);
    EXPECT_TRUE(event) << event.error().detail();
    EXPECT_TRUE(engine_->Commit());
    Checkpoint();
    return event ? std::move(*event) : Event();
  }
  Event Succeed(NewOperation call) { return Record(Success(Dispatch(std::move(call)))); }
  Event End(std::string_view key, Phase phase) { return Record(Move(Dispatch(Call(key)), phase)); }
  void Checkpoint() {
    if (!engine_->index().WantsFreeze()) return;
    ASSERT_TRUE(engine_->index().cold()->Write(*engine_->index().Freeze()));
    engine_->index().FrozenIsStored();
  }
  void RetireAll(const LedgerRule& rule = kRule) {
    for (bool more = true; more;) {
      const auto retired = engine_->Retire(rule);
      ASSERT_TRUE(retired) << retired.error().detail();
      more = retired->more;
      Checkpoint();
    }
  }
  // Lets time pass in steps, as a running process does.
  void Live(Millis time) {
    for (Millis left = time; left > Millis(0); left -= kDay / 4) {
      clock_.Advance(std::min(left, kDay / 4));
      RetireAll();
    }
  }
  VerifyReport Verify() {
    return VerifyLog(engine_->log(), nullptr, engine_->head().seq, engine_->head().hash);
  }

  TempDirectory directory_{FastParent()};
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace recourse
