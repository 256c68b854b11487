// A ledger in memory and a sealed one on disk, and people who decide what waits in it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/support/seeded_random.h"

namespace recourse {

inline const Digest kPolicy = DigestOf("the policy");

inline NewOperation Asking(std::string_view key, std::string_view trace = "trace-1") {
  NewOperation call = Call(key, trace);
  call.event.is_step = true;
  call.event.request = RenderedRequest{
      "POST", "/orders", {{"Authorization", "Bearer secret"}}, R"({"amount":5000})"};
  call.approval = {.needed = 1,
                   .by = {"team"},
                   .expires = Millis(60'000),
                   .policy = kPolicy,
                   .why = "amount > 1000"};
  return call;
}

// By one of the team, as it is there now.
inline Result<ApprovalOutcome> ApproveAt(Ledger& ledger, std::uint64_t operation, std::string who,
                                         PumpedExecutor& executor) {
  const auto now = Await(ledger.Read(operation, executor), executor);
  EXPECT_TRUE(now);
  return Await(ledger.Decide({.kind = ApprovalOrder::Kind::kApprove,
                              .operation = operation,
                              .by = {std::move(who), {"team"}},
                              .digest = now->approval->digest,
                              .policy = kPolicy,
                              .reason = "seen",
                              .body = {}},
                             executor),
               executor);
}

class ApprovalLedgerTest : public testing::TestWithParam<Store> {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    if (GetParam() == Store::kMemory) {
      ledger_ = MakeMemoryLedger(clock_);
      return;
    }
    if (GetParam() == Store::kPostgres) {
      if (url_.empty()) url_ = FreshPostgresLedger();
      ledger_ = OpenTestPostgres(url_, clock_,
                                 std::make_shared<LedgerKeys>(*KeyRing::Parse(key_), random_));
      return;
    }
    auto opened = OpenLmdbLedger(
        {.directory = directory_.data(),
         .map_bytes = 1U << 30,
         .unsafe_fs = true,
         .secrets = [this](const LedgerFacts&) -> std::expected<LedgerSecrets, std::string> {
           return LedgerSecrets{std::make_shared<LedgerKeys>(*KeyRing::Parse(key_), random_),
                                "install-1"};
         }},
        clock_);
    if (!opened) ADD_FAILURE() << opened.error();
    ledger_ = std::move(*opened);
  }
  // A ledger in memory does not outlive its process.
  bool Restart() {
    if (GetParam() == Store::kMemory) return false;
    ledger_.reset();
    Open();
    return true;
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    if (begun && begun->commit) {
      EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    }
    return begun ? std::move(*begun) : Begun();
  }
  Event Ask(std::string_view key = "k", std::string_view trace = "trace-1") {
    Begun begun = Begin(Asking(key, trace));
    EXPECT_EQ(begun.kind, Begun::Kind::kHeld);
    EXPECT_NE(begun.commit, nullptr);
    return begun.event;
  }
  ApprovalOutcome Decide(ApprovalOrder order) {
    auto outcome = Await(ledger_->Decide(std::move(order), executor_), executor_);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().detail());
    return outcome ? std::move(*outcome) : ApprovalOutcome();
  }
  ApprovalOutcome Say(ApprovalOrder::Kind kind, const Event& event, std::string who = "ann",
                      std::optional<std::string> body = {}) {
    return Decide({.kind = kind,
                   .operation = event.operation,
                   .by = {std::move(who), {"team"}},
                   .digest = Latest(event.operation).approval->digest,
                   .policy = kPolicy,
                   .reason = "seen",
                   .body = std::move(body)});
  }
  Result<Begun> TryUse(std::uint64_t operation, const Digest& policy = kPolicy) {
    NewOperation call = Call("ignored");
    call.approved = operation;
    call.policy_in_force = policy;
    return Await(ledger_->Begin(std::move(call), executor_), executor_);
  }
  Event Latest(std::uint64_t operation) {
    auto event = Await(ledger_->Read(operation, executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  std::vector<PendingApproval> Claims() {
    auto claims = Await(ledger_->Claims(0, 100, executor_), executor_);
    EXPECT_TRUE(claims);
    return claims ? std::move(*claims) : std::vector<PendingApproval>();
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  TempDirectory directory_{FastParent()};
  SeededRandom random_{3};
  const std::string key_ = NewKeyLine("k1", random_);
  std::string url_;  // of PostgreSQL
  std::unique_ptr<Ledger> ledger_;
};

}  // namespace recourse
