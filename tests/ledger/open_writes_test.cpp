// A write that ends while another process looks for what may have ended an earlier one.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "filters/ledger/postgres/facts.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::open_writes_test {
namespace {

class OpenWritesTest : public testing::Test {
 protected:
  using Found = std::optional<std::vector<OpenWritesAt::Open>>;

  Found Ask() {
    Known known;
    const OpenWritesAt asked{mark_, 1};
    facts_.Answer(known, {asked});
    const auto open = known.Get(asked);
    return open ? Found(**open) : std::nullopt;
  }
  // What is wished for is read: the mark is at `place`, and nothing is open.
  void Read(std::uint64_t place) {
    Fetched fetched;
    if (place != 0) fetched.versions.intents[AsUuid(mark_)] = {1, 7, place};
    fetched.rows[1] = {10, "a row"};
    fetched.open.emplace();
    facts_.rows().Take(fetched);
  }

  const ManualClock clock_{};
  const Digest mark_ = DigestOf("a mark");
  LocalFacts local_{.clock = clock_, .opener = RowDecryptor(nullptr)};
  VerbFacts facts_{local_, false};
};

TEST_F(OpenWritesTest, WhatEndsBetweenTheLookAtItsMarkAndTheLookForWhatIsOpenIsFound) {
  EXPECT_EQ(facts_.rows().Intent(mark_), nullptr);
  Read(0);
  EXPECT_EQ(facts_.rows().Intent(mark_)->version, 0);
  EXPECT_FALSE(Ask());
  Read(20);
  const auto found = Ask();
  ASSERT_TRUE(found && found->size() == 1);
  EXPECT_EQ(found->front().last_event, 7U);
}

TEST_F(OpenWritesTest, AMarkThatWasThereBeforeIsNoSuchWrite) {
  EXPECT_EQ(facts_.rows().Intent(mark_), nullptr);
  Read(20);
  EXPECT_FALSE(Ask());
  Read(20);
  const auto found = Ask();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->empty());
}

}  // namespace
}  // namespace recourse::open_writes_test
