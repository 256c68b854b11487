// A ledger that fills up: nothing that has begun is left without its outcome.
#include <gtest/gtest.h>

#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/recovery.h"
#include "filters/ledger/lmdb/backup_file.h"
#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::space_test {
namespace {

using Kind = Begun::Kind;

class SmallLedger : public testing::Test {
 protected:
  void Open(std::uint64_t bytes) {
    engine_.reset();
    auto parts = OpenLmdbParts({.directory = directory_.data(), .map_bytes = bytes});
    ASSERT_TRUE(parts) << parts.error();
    auto engine = StartEngine(std::move(*parts), clock_);
    ASSERT_TRUE(engine) << engine.error();
    engine_ = std::move(*engine);
  }
  Result<Begun> Begin(NewOperation call) {
    auto step = engine_->Begin(call);
    EXPECT_TRUE(engine_->Commit());
    if (!step) return std::unexpected(step.error());
    return std::move(step->begun);
  }
  Result<Event> Record(Transition transition) {
    auto event = engine_->Record(transition);
    EXPECT_TRUE(engine_->Commit());
    return event;
  }
  // Begins operations until the ledger refuses; every `ending`th ends at once.
  std::vector<Event> Fill(int ending, std::size_t answer_bytes) {
    std::vector<Event> open;
    for (int i = 0; i < 100'000; ++i) {
      auto begun = Begin(Call("k" + std::to_string(next_++)));
      if (!begun) {
        EXPECT_EQ(begun.error().code(), ErrorCode::kLedgerFull);
        EXPECT_EQ(begun.error().delivery(), Delivery::kNotSent);
        return open;
      }
      if (i % ending == 0) {
        EXPECT_TRUE(Record(Success(begun->event, std::string(answer_bytes, 'x'))));
      } else {
        open.push_back(begun->event);
      }
    }
    ADD_FAILURE() << "it never filled";
    return open;
  }
  // The largest outcome that there is, but for its answer.
  static Transition LargeOutcome(const Event& event) {
    Transition transition = Success(event, std::string(limits::kAnswerKeptBytesMax, 'y'));
    transition.undo =
        RenderedRequest{"POST", "/undo", {}, std::string(limits::kRenderedRequestBytesMax, 'u')};
    return transition;
  }

  TempDirectory directory_{FastParent()};
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
  int next_ = 0;
};

TEST_F(SmallLedger, EverythingThatBeganEndsWhenThereIsNoRoomForMore) {
  for (const int ending : {2, 7, 50}) {
    for (const std::size_t answer : {std::size_t{100}, std::size_t{3'000}, std::size_t{200'000}}) {
      Open(std::uint64_t{8} << 20);
      const std::vector<Event> open = Fill(ending, answer);
      EXPECT_TRUE(engine_->Stats().is_full);
      for (const Event& event : open) {
        const auto done = Record(LargeOutcome(event));
        ASSERT_TRUE(done) << ending << " " << answer;
        EXPECT_TRUE(done->undo);
      }
      EXPECT_FALSE(engine_->is_latched());
      EXPECT_EQ(engine_->Stats().running, 0U);
      EXPECT_TRUE(VerifyLog(engine_->log(), nullptr, engine_->head().seq, engine_->head().hash).ok);
      engine_.reset();
      std::filesystem::remove_all(directory_.data());
    }
  }
}

TEST_F(SmallLedger, AFullLedgerStillReplaysAndTakesMoreAfterRetentionOrWithALargerLimit) {
  Open(std::uint64_t{8} << 20);
  Fill(1, 3'000);
  auto replay = Begin(Call("k0"));
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->kind, Kind::kReplay);
  EXPECT_FALSE(Begin(Call("new")));

  Open(std::uint64_t{16} << 20);
  EXPECT_TRUE(Begin(Call("new")));

  Open(std::uint64_t{8} << 20);
  EXPECT_FALSE(Begin(Call("newer")));
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(1'000)};
  for (int i = 0; i < 200; ++i) {
    clock_.Advance(Millis(100));
    ASSERT_TRUE(engine_->Retire(rule));
  }
  EXPECT_FALSE(engine_->is_latched());
  EXPECT_TRUE(Begin(Call("newer")));
  EXPECT_FALSE(engine_->Stats().is_full);
}

TEST_F(SmallLedger, FillingAndForgettingMayGoOnForever) {
  Open(std::uint64_t{8} << 20);
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(2'000)};
  std::size_t admitted = 0;
  std::size_t kept = 0;
  for (int round = 0; round < 3'000; ++round) {
    auto begun = Begin(Call("k" + std::to_string(round)));
    if (begun) {
      ++admitted;
      auto done = Record(Success(
          begun->event, std::string(static_cast<std::size_t>(100 + round * 97 % 60'000), 'x')));
      ASSERT_TRUE(done) << round;
      kept += done->answer_kept ? 1U : 0U;
    }
    clock_.Advance(Millis(20));
    ASSERT_TRUE(engine_->Retire(rule));
    ASSERT_FALSE(engine_->is_latched()) << round;
  }
  EXPECT_GT(admitted, 2'000U);
  EXPECT_GT(kept, 1'000U);
  EXPECT_TRUE(VerifyLog(engine_->log(), nullptr, engine_->head().seq, engine_->head().hash).ok);
}

TEST_F(SmallLedger, StoredBytesCountUntilRetentionFreesThem) {
  Open(std::uint64_t{64} << 20);
  const auto call = [this] {
    NewOperation made = Call("k" + std::to_string(next_++));
    made.quota.stored_bytes = 64 * 1024;
    return made;
  };
  int stored = 0;
  for (;; ++stored) {
    const auto begun = Begin(call());
    if (!begun) break;
    EXPECT_TRUE(Record(Success(begun->event, std::string(5'000, 'x'))));
    ASSERT_LT(stored, 100);
  }
  EXPECT_GT(stored, 8);
  const LedgerRule rule{.retention = Millis(1'000), .tombstones = Millis(1'000)};
  for (int i = 0; i < 30; ++i) {
    clock_.Advance(Millis(100));
    ASSERT_TRUE(engine_->Retire(rule));
  }
  EXPECT_TRUE(Begin(call()));
}

// Sizes about which LMDB takes a page more: half of one, one, and two.
TEST_F(SmallLedger, RowsThatFillPagesBadlyFindRoomUntilTheLogIsFull) {
  for (const std::size_t size : {1'355U, 2'022U, 2'023U, 2'030U, 4'080U, 4'081U, 4'090U, 8'177U}) {
    Open(1U << 23);
    EventLog& log = engine_->log();
    Digest hash = engine_->head().hash;
    Event event;
    RowBatch one;
    AppendEventRow(one.bytes, event, hash, nullptr);
    event.tool = std::string(size - one.bytes.size(), 't');
    std::expected<void, AppendError> done;
    while (done) {
      RowBatch batch;
      batch.first_seq = log.last_seq() + 1;
      for (std::uint64_t seq = batch.first_seq; seq < batch.first_seq + 9; ++seq) {
        event.id = event.operation = seq;
        const std::size_t start = batch.bytes.size();
        AppendEventRow(batch.bytes, event, hash, nullptr);
        ASSERT_EQ(batch.bytes.size() - start, size);
        hash = RowHash(std::string_view(batch.bytes).substr(start));
        batch.ends.push_back(batch.bytes.size());
      }
      done = log.Append(batch);
    }
    EXPECT_TRUE(done.error().is_full) << size << ": " << done.error().reason;
    EXPECT_FALSE(log.has_failed()) << size;
    const std::uint64_t last = log.last_seq();
    EXPECT_GT(last * size, 3'000'000U) << size;
    engine_.reset();
    EXPECT_EQ(VerifyLedgerFile(directory_.data() + "/data.mdb")->rows, last) << size;
    std::filesystem::remove_all(directory_.data());
  }
}

}  // namespace
}  // namespace recourse::space_test
