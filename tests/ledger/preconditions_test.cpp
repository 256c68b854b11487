// Calls that are equal but for the state that they ask to be there before.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/standing_notes.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::preconditions_test {
namespace {

using Kind = Begun::Kind;

class PreconditionsTest : public testing::TestWithParam<Store> {
 protected:
  // nullopt: as an earlier version wrote it down, or a call by name.
  static NewOperation After(std::optional<std::uint64_t> precondition) {
    NewOperation call = Call("append");
    call.may_be_superseded = true;
    call.event.resource = DigestOf("document");
    call.event.stands.kind = WriteKind::kPatch;
    call.event.stands.members = Members::kUnknown;
    call.event.stands.ended_by = {NoteOf(NoteKind::kContent, 1)};
    if (precondition) {
      call.event.stands.ended_by.push_back(NoteOf(NoteKind::kPrecondition, *precondition));
    }
    return call;
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  Event Execute(NewOperation call) {
    const Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    EXPECT_TRUE(begun.commit && Await(begun.commit->Durable(), executor_));
    auto event = Await(ledger_->Record(Success(begun.event), executor_), executor_);
    EXPECT_TRUE(event);
    return event ? std::move(*event) : Event();
  }
  void Tell(const Event& event) { ledger_->MarkAnswered(AttemptId::Of(event)); }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(PreconditionsTest, AreToldApartOnceTheAnswerWasThere) {
  Tell(Execute(After(0)));
  EXPECT_EQ(Begin(After(0)).kind, Kind::kReplay);
  Tell(Execute(After(7)));
  EXPECT_EQ(Begin(After(7)).kind, Kind::kReplay);
  Execute(After(0));
}

TEST_P(PreconditionsTest, OfWhatAnEarlierVersionWroteNothingIsKnown) {
  Tell(Execute(After(std::nullopt)));
  for (const std::uint64_t precondition : {0U, 7U}) {
    EXPECT_EQ(Begin(After(precondition)).kind, Kind::kReplay) << precondition;
  }
}

TEST_P(PreconditionsTest, AnswersThatWereLostAreToldToWhoeverReadAgainAndToItsRepeats) {
  const Event lost = Execute(After(1));
  for (int i = 0; i < 2; ++i) {
    const Begun again = Begin(After(2));
    EXPECT_EQ(again.kind, Kind::kReplay);
    EXPECT_TRUE(again.is_answered) << "it is not what was answered";
  }
  EXPECT_FALSE(Begin(After(1)).is_answered);
  Tell(lost);
  EXPECT_EQ(Begin(After(2)).kind, Kind::kFresh);
}

INSTANTIATE_TEST_SUITE_P(Stores, PreconditionsTest, testing::Values(Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::preconditions_test
