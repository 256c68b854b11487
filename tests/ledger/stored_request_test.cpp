// The exact request of an operation, kept for whoever sends it later or again.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "proxy/base/limits.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::stored_request_test {
namespace {

class StoredRequestTest : public testing::TestWithParam<Store> {
 protected:
  Event Dispatch(NewOperation call) {
    return Await(ledger_->Begin(std::move(call), executor_), executor_)->event;
  }
  Event Record(Transition transition) {
    return *Await(ledger_->Record(std::move(transition), executor_), executor_);
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(StoredRequestTest, ARequestIsGivenBackUntilTheOutcomeIsKnown) {
  NewOperation call = Call("k");
  call.event.request = RenderedRequest{"POST", "/orders?a=b", {{"Key", "k"}}, "{}"};
  const Event begun = Dispatch(std::move(call));
  EXPECT_FALSE(begun.request);  // its sender has it
  EXPECT_EQ((*ledger_->Find(begun.operation))->request->target, "/orders?a=b");
  const Event unknown = Record(Move(begun, Phase::kUncertain, Cause::kTimeout));
  ASSERT_TRUE(unknown.request);
  EXPECT_EQ(unknown.request->headers, (Headers{{"Key", "k"}}));
  EXPECT_EQ((*ledger_->Find(unknown.id))->request->body, "{}");
  const Event done = Record(Success(unknown));
  EXPECT_FALSE(done.request || (*ledger_->Find(done.id))->request);
}

TEST_P(StoredRequestTest, ARequestThatIsTooLargeIsLeftOutAndMarkedSo) {
  NewOperation call = Call("k");
  call.event.request = RenderedRequest{"POST", "/", {}, ""};
  call.event.request->body.assign(limits::kStoredRequestBodyBytesMax, 'x');
  ASSERT_TRUE(CanBeKept(*call.event.request));
  call.event.request->body += 'x';
  const Event begun = Dispatch(std::move(call));
  const auto first = *ledger_->Find(begun.operation);
  EXPECT_TRUE(first->request_left_out);
  EXPECT_FALSE(first->request);
  EXPECT_TRUE(Record(Move(begun, Phase::kUncertain, Cause::kTimeout)).request_left_out);
}

INSTANTIATE_TEST_SUITE_P(Stores, StoredRequestTest,
                         testing::Values(Store::kMemory, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::stored_request_test
