#include "filters/ledger/model/event.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace recourse::event_test {
namespace {

using enum Phase;

constexpr Phase PhaseAt(int i) { return static_cast<Phase>(i); }

// The transition table, written down a second time on purpose.
const std::map<Phase, std::set<Phase>> kExpected = {
    {kNone, {kClaimed, kDispatching}},
    {kClaimed, {kClaimed, kApproved, kDenied, kExpired}},
    {kApproved, {kDispatching, kExpired}},
    {kDenied, {kTombstone}},
    {kExpired, {kClaimed, kTombstone}},
    {kDispatching, {kUncertain, kSucceeded, kAnswerLost, kNotSent, kRejected}},
    {kUncertain, {kDispatching, kSucceeded, kAnswerLost, kRejected, kProvenAbsent}},
    {kSucceeded, {kCompensated, kTombstone}},
    {kAnswerLost, {kSucceeded, kCompensated, kTombstone}},
    {kNotSent, {kClaimed, kDispatching, kTombstone}},
    {kRejected, {kClaimed, kDispatching, kTombstone}},
    {kProvenAbsent, {kClaimed, kDispatching, kSucceeded, kAnswerLost, kTombstone}},
    {kCompensated, {kTombstone}},
    {kTombstone, {}},
};

TEST(EventTest, TransitionTableHoldsForAllPairs) {
  for (int from = 0; from < kPhaseCount; ++from) {
    for (int to = 0; to < kPhaseCount; ++to) {
      EXPECT_EQ(IsLegal(PhaseAt(from), PhaseAt(to)),
                kExpected.at(PhaseAt(from)).contains(PhaseAt(to)))
          << NameOf(PhaseAt(from)) << " -> " << NameOf(PhaseAt(to));
    }
  }
}

TEST(EventTest, NoPhaseMovesToItselfOrBackToNone) {
  for (int i = 0; i < kPhaseCount; ++i) {
    // Approvals add up in CLAIMED.
    EXPECT_EQ(IsLegal(PhaseAt(i), PhaseAt(i)), PhaseAt(i) == kClaimed) << NameOf(PhaseAt(i));
    EXPECT_FALSE(IsLegal(PhaseAt(i), kNone)) << NameOf(PhaseAt(i));
  }
}

TEST(EventTest, NothingThatMayHaveBeenSentBecomesNotSent) {
  EXPECT_TRUE(IsLegal(kDispatching, kNotSent));  // proven while dispatching
  EXPECT_FALSE(IsLegal(kUncertain, kNotSent));
}

TEST(EventTest, OnlyUnknownAndRunningAndWaitingOperationsAreNotFinal) {
  for (int i = 0; i < kPhaseCount; ++i) {
    EXPECT_EQ(IsFinal(PhaseAt(i)), PhaseAt(i) != kNone && StatusOf(PhaseAt(i)) != Status::kPending)
        << NameOf(PhaseAt(i));
  }
}

TEST(EventTest, EveryPhaseHasItsStatus) {
  const std::map<Phase, Status> expected = {{kNone, Status::kPending},
                                            {kClaimed, Status::kPending},
                                            {kApproved, Status::kPending},
                                            {kDenied, Status::kFailed},
                                            {kExpired, Status::kFailed},
                                            {kDispatching, Status::kPending},
                                            {kUncertain, Status::kPending},
                                            {kSucceeded, Status::kSuccess},
                                            {kAnswerLost, Status::kSuccess},
                                            {kNotSent, Status::kFailed},
                                            {kRejected, Status::kFailed},
                                            {kProvenAbsent, Status::kFailed},
                                            {kCompensated, Status::kCompensated},
                                            {kTombstone, Status::kFailed}};
  for (const auto& [phase, status] : expected) EXPECT_EQ(StatusOf(phase), status) << NameOf(phase);
}

TEST(EventTest, NamesReadBackAndAreUnique) {
  std::set<std::string_view> names;
  for (int i = 0; i < kPhaseCount; ++i) {
    EXPECT_EQ(PhaseFromName(NameOf(PhaseAt(i))), PhaseAt(i));
    names.insert(NameOf(PhaseAt(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kPhaseCount));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(StatusFromName(NameOf(static_cast<Status>(i))), static_cast<Status>(i));
  }
  EXPECT_EQ(PhaseFromName("dispatching"), Phase::kDispatching);
  EXPECT_EQ(PhaseFromName("dispatch"), std::nullopt);
  EXPECT_EQ(PhaseFromName(""), std::nullopt);
  EXPECT_EQ(StatusFromName("DONE"), std::nullopt);
  EXPECT_EQ(NameOf(kAnswerLost), "ANSWER_LOST");
  EXPECT_EQ(NameOf(Cause::kFirstCall), "first_call");
  EXPECT_EQ(NameOf(Cause::kCanceled), "canceled");
  EXPECT_EQ(NameOf(Cause::kResend), "resend");
}

}  // namespace
}  // namespace recourse::event_test
