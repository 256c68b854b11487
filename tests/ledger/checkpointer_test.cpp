#include "filters/ledger/index/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace recourse::checkpointer_test {
namespace {

using testing::ElementsAre;

// An index of whose writes the test says whether they succeed; it remembers the rows of those.
class ScriptedIndex final : public ColdIndex {
 public:
  std::optional<ColdEntry> FindKey(const Digest&) override { return std::nullopt; }
  std::optional<std::uint64_t> FindIntent(const Digest&) override { return std::nullopt; }
  bool is_damaged() const override { return false; }
  std::expected<void, std::string> Write(const IndexSnapshot& snapshot) override {
    ++tries_;
    if (fails_) return std::unexpected("no room");
    const std::lock_guard lock(mutex_);
    written_.push_back(snapshot.mark.applied_seq);
    return {};
  }
  std::optional<IndexMark> LoadMark() override { return std::nullopt; }
  std::expected<void, std::string> Clear() override { return {}; }

  std::vector<std::uint64_t> written() {
    const std::lock_guard lock(mutex_);
    return written_;
  }

  std::atomic<bool> fails_ = true;
  std::atomic<int> tries_ = 0;

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> written_;  // guarded by mutex_
};

std::shared_ptr<const IndexSnapshot> Snapshot(std::uint64_t row) {
  auto snapshot = std::make_shared<IndexSnapshot>();
  snapshot->mark.applied_seq = row;
  return snapshot;
}

class CheckpointerTest : public testing::Test {
 protected:
  void AwaitTries(int count) {
    while (index_.tries_ < count) std::this_thread::yield();
  }

  ScriptedIndex index_;
  Checkpointer checkpointer_{&index_, CheckpointPauses{Millis(1), Millis(1)}};
};

TEST_F(CheckpointerTest, AWriteThatFailsIsTriedAgainUntilItIsStored) {
  checkpointer_.Submit(Snapshot(1));
  EXPECT_FALSE(checkpointer_.Finish());
  EXPECT_TRUE(checkpointer_.is_failing());
  AwaitTries(3);
  index_.fails_ = false;
  while (!checkpointer_.is_done()) std::this_thread::yield();
  EXPECT_FALSE(checkpointer_.is_failing());
  EXPECT_THAT(index_.written(), ElementsAre(1));
}

// Whoever clears the index next would find it marked as whole, without what was cleared.
TEST_F(CheckpointerTest, WhatIsGivenUpIsNeverWrittenAfterwards) {
  checkpointer_.Submit(Snapshot(1));
  AwaitTries(3);
  checkpointer_.GiveUp();
  index_.fails_ = false;
  EXPECT_TRUE(checkpointer_.is_done());
  checkpointer_.Submit(Snapshot(2));
  EXPECT_TRUE(checkpointer_.Finish());
  EXPECT_THAT(index_.written(), ElementsAre(2));
}

TEST_F(CheckpointerTest, WhatIsStoredCannotBeGivenUp) {
  index_.fails_ = false;
  checkpointer_.Submit(Snapshot(1));
  EXPECT_TRUE(checkpointer_.Finish());
  checkpointer_.GiveUp();
  EXPECT_THAT(index_.written(), ElementsAre(1));
}

}  // namespace
}  // namespace recourse::checkpointer_test
