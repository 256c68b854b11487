// Every allocation on the way from a call to its key, and from an answer to its row, fails once
// (c07). What is decided then is the same, or less certain, or nothing at all; it is never other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "filters/call/outcome.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/filters/key_builder.h"

namespace {

// Counts down while it is positive; the allocation that brings it to zero fails.
int allocations_left = 0;

void* Allocate(std::size_t size) {
  if (allocations_left > 0 && --allocations_left == 0) return nullptr;
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* const memory = Allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace recourse {
namespace {

constexpr int kAllocationsMax = 2'000;

// Runs `work` once for every allocation in it, with that one failing, each time on a new thread:
// what a thread keeps is made anew. `check` sees what came of each run that did not throw, and of
// one more on the same thread, in which nothing fails.
template <class Work, class Check>
void FailEachAllocation(Work work, Check check) {
  for (int failing = 1; failing <= kAllocationsMax; ++failing) {
    std::optional<decltype(work())> result, again;
    bool has_failed = false;
    std::thread([&] {
      allocations_left = failing;
      try {
        result.emplace(work());
      } catch (const std::bad_alloc&) {
      }
      has_failed = allocations_left == 0;
      allocations_left = 0;
      again.emplace(work());
    }).join();
    if (result) check(*result, has_failed);
    check(*again, false);
    if (has_failed) continue;
    EXPECT_GT(failing, 10) << "the work hardly allocates, so this shows nothing";
    EXPECT_TRUE(result.has_value());
    return;
  }
  FAIL() << "more than " << kAllocationsMax << " allocations";
}

TEST(OutOfMemoryTest, ACallHasItsKeyOrIsRefused) {
  KeyCase call;
  call.body = R"({"customer_id":"ada","cart_id":12345678901234567890,"items":[1.50,"x\n",null]})";
  call.query = "a=1&b=2";
  const DerivedKey expected = Derive(call);
  FailEachAllocation([&call] { return TryDerive(call); },
                     [&expected](const Result<DerivedKey>& derived, bool has_failed) {
                       ASSERT_TRUE(derived.has_value() || has_failed);
                       if (!derived) return;
                       EXPECT_EQ(derived->key, expected.key);
                       EXPECT_EQ(derived->intent, expected.intent);
                       EXPECT_EQ(derived->args_hash, expected.args_hash);
                     });
}

struct Recorded {
  Phase phase = Phase::kNone;
  std::string external_ref;
  std::string row;
};

Recorded RecordAnswer(const Tool& tool, const Result<Answer>& result) {
  const std::optional<Json> body = ReadAnswerBody(*result);
  CallValues values;
  values.answer_status = result->response.status;
  values.answer_headers = &result->response.headers;
  values.answer_body = body ? &*body : nullptr;
  const Verdict verdict = Classify(tool, result, values);
  Event event;
  event.id = 8;
  event.operation = 7;
  event.attempt = 1;
  Transition move = MakeTransition(event, verdict, tool, result, values);
  event.phase = move.to;
  event.external_ref = move.external_ref;
  event.answer_kept = move.answer_kept;
  event.answer = std::move(move.answer);
  Recorded recorded{event.phase, event.external_ref, {}};
  AppendEventRow(recorded.row, event, Digest{}, nullptr);
  return recorded;
}

TEST(OutOfMemoryTest, AnAnswerIsRecordedAsItIsOrAsLessCertain) {
  Tool tool;
  tool.name = "orders.create";
  tool.success_when.push_back(*ParseCondition("answer.body#/ok == true"));
  tool.external_ref = *ParseSelector("answer.body#/order/id");
  Answer answer;
  answer.response.status = 201;
  answer.response.reason = "Created";
  answer.response.headers = {{"Content-Type", "application/json"}, {"Location", "/orders/7"}};
  answer.response.body =
      R"({"ok":true,"order":{"id":"an id that is longer than any small string is"}})";
  const Result<Answer> result(std::move(answer));
  const Recorded expected = RecordAnswer(tool, result);
  ASSERT_EQ(expected.phase, Phase::kSucceeded);
  FailEachAllocation([&] { return RecordAnswer(tool, result); },
                     [&expected](const Recorded& recorded, bool has_failed) {
                       if (has_failed && recorded.phase != Phase::kSucceeded) {
                         EXPECT_EQ(recorded.phase, Phase::kUncertain);
                         return;
                       }
                       EXPECT_EQ(recorded.phase, expected.phase);
                       EXPECT_EQ(recorded.external_ref, expected.external_ref);
                       EXPECT_EQ(recorded.row, expected.row);
                     });
}

}  // namespace
}  // namespace recourse
