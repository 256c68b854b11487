// Operations as they are now: pages in both directions, filters, and bounded work.
#include "filters/ledger/queries/operation_queries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "proxy/base/watch_limits.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::operation_queries_test {
namespace {

class OperationsTest : public testing::TestWithParam<Store> {
 protected:
  Event Begin(const std::string& key, const std::string& tool = "orders.create") {
    NewOperation call = Call(key);
    call.event.tool = tool;
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun && Await(begun->commit->Durable(), executor_));
    return begun ? begun->event : Event();
  }
  Event End(const Event& event) {
    auto ended = Await(ledger_->Record(Success(event, "done"), executor_), executor_);
    EXPECT_TRUE(ended);
    return ended ? *ended : Event();
  }
  OperationPage Page(const OperationFilter& filter = {}) {
    auto page = dynamic_cast<OperationLister&>(*ledger_).Operations(filter);
    EXPECT_TRUE(page) << (page ? "" : page.error().detail());
    return page ? std::move(*page) : OperationPage();
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

std::vector<std::uint64_t> Ids(const OperationPage& page) {
  std::vector<std::uint64_t> ids;
  for (const Event& event : page.events) ids.push_back(event.operation);
  return ids;
}

TEST_P(OperationsTest, AnOperationIsListedOnceByWhatItIsNow) {
  const Event first = Begin("a");
  const Event second = Begin("b");
  const Event ended = End(first);
  const OperationPage page = Page();
  ASSERT_EQ(Ids(page), (std::vector{first.operation, second.operation}));
  EXPECT_EQ(page.events[0].id, ended.id);
  EXPECT_EQ(page.events[0].phase, Phase::kSucceeded);
  EXPECT_EQ(page.events[1].phase, Phase::kDispatching);
  EXPECT_FALSE(page.newer);
}

TEST_P(OperationsTest, WhatAnOperationWasBeforeIsNotFound) {
  End(Begin("a"));
  const Event open = Begin("b");
  EXPECT_EQ(Ids(Page({.phase = Phase::kDispatching})), std::vector{open.operation});
  EXPECT_TRUE(Page({.status = Status::kFailed}).events.empty());
  EXPECT_EQ(Page({.status = Status::kSuccess}).events.size(), 1U);
}

// The row that ends it is far from the one that began it, in another window and on another page.
TEST_P(OperationsTest, WhatObserveModeSawIsToldApart) {
  const Event sent = Begin("a");
  NewOperation seen = Call("b");
  seen.event.verdict = ObserveVerdict::kFresh;
  const auto begun = Await(ledger_->Begin(std::move(seen), executor_), executor_);
  ASSERT_TRUE(begun && Await(begun->commit->Durable(), executor_));
  EXPECT_EQ(Page().events.size(), 2U);
  EXPECT_EQ(Ids(Page({.observed = false})), std::vector{sent.operation});
  const OperationPage observed = Page({.observed = true});
  ASSERT_EQ(observed.events.size(), 1U);
  EXPECT_EQ(observed.events[0].verdict, ObserveVerdict::kFresh);
}

TEST_P(OperationsTest, PagesInBothDirectionsGiveEachOperationOnce) {
  const Event early = Begin("early");
  std::set<std::uint64_t> all{early.operation};
  for (std::size_t i = 0; i < limits::kOperationsWindowRows; ++i) {
    all.insert(End(Begin("k" + std::to_string(i))).operation);
  }
  End(early);
  std::vector<std::uint64_t> down;
  OperationPage page = Page({.limit = 37});
  EXPECT_EQ(page.events.front().operation, early.operation);
  for (;;) {
    const auto ids = Ids(page);
    down.insert(down.end(), ids.begin(), ids.end());
    if (!page.older) break;
    page = Page({.before = page.first, .limit = 37});
  }
  EXPECT_EQ(down.size(), all.size());
  EXPECT_EQ(std::set(down.begin(), down.end()), all);

  std::vector<std::uint64_t> up;
  page = Page({.after = 0, .limit = 37});
  for (;;) {
    auto ids = Ids(page);
    std::reverse(ids.begin(), ids.end());
    up.insert(up.end(), ids.begin(), ids.end());
    if (!page.newer) break;
    page = Page({.after = page.last, .limit = 37});
  }
  std::reverse(up.begin(), up.end());
  EXPECT_EQ(up, down);
}

TEST_P(OperationsTest, FiltersByToolTraceAndCaller) {
  const Event order = Begin("a");
  const Event mail = Begin("b", "mail.send");
  EXPECT_EQ(Ids(Page({.tool = "mail.send"})), std::vector{mail.operation});
  EXPECT_EQ(Page({.trace_id = order.trace_id}).events.size(), 2U);
  EXPECT_TRUE(Page({.caller = "nobody"}).events.empty());
  EXPECT_TRUE(Page({.flow = "none"}).events.empty());
}

TEST_P(OperationsTest, CursorsBeyondTheLogGiveNothing) {
  EXPECT_TRUE(Page().events.empty());
  Begin("a");
  EXPECT_TRUE(Page({.before = 0}).events.empty());
  EXPECT_TRUE(Page({.before = 1}).events.empty());
  if (store_.is_shared()) return;  // a row that is not there may be one that was removed
  constexpr std::uint64_t kBeyond = std::uint64_t{1} << 60;
  EXPECT_TRUE(Page({.after = kBeyond}).events.empty());
  EXPECT_FALSE(Page({.after = kBeyond}).newer);
}

// A filter that nothing matches must not read a log of any size in one go.
TEST_P(OperationsTest, OnePageLooksAtABoundedNumberOfRows) {
  if (GetParam() != Store::kMemory) GTEST_SKIP() << "the same code, and a commit for every row";
  for (std::size_t i = 0; i < limits::kOperationsScanRows / 2 + 1'000; ++i) {
    End(Begin("k" + std::to_string(i)));
  }
  const OperationPage page = Page({.tool = "never.called"});
  EXPECT_TRUE(page.events.empty());
  EXPECT_TRUE(page.older);
  EXPECT_LE(page.last - page.first + 1, limits::kOperationsScanRows);
  EXPECT_GE(page.last - page.first + 1, limits::kOperationsScanRows / 2);
}

INSTANTIATE_TEST_SUITE_P(Stores, OperationsTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::operation_queries_test
