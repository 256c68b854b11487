// Bytes of the journal, and which part of its ring a record has.
#include "filters/ledger/lmdb/journal_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "filters/ledger/lmdb/journal_ring.h"

namespace recourse::journal_record_test {
namespace {

constexpr JournalId kId{1, 2, 3};

RowBatch BatchOf(const std::vector<std::string>& rows, std::uint64_t first_seq = 7) {
  RowBatch batch;
  batch.first_seq = first_seq;
  for (const std::string& row : rows) {
    batch.bytes += row;
    batch.ends.push_back(batch.bytes.size());
  }
  return batch;
}

JournalBlock Kind(std::string_view bytes) {
  FoundRecord found;
  return DecodeJournalRecord(bytes, kId, found);
}

TEST(JournalRecordTest, WhatIsWrittenIsRead) {
  const std::vector<std::vector<std::string>> batches = {
      {"a"},
      {"", std::string(10'000, 'x'), "b"},
      std::vector<std::string>(1'024, "row"),
      {std::string(4096 - 56 - 4, 'f')},  // fills a block
      {std::string(4096 - 56 - 4 + 1, 'g')}};
  for (const auto& rows : batches) {
    const RowBatch batch = BatchOf(rows);
    const JournalRecord record = EncodeJournalRecord(kId, 5, batch);
    EXPECT_EQ(record.bytes.size() % kJournalBlockBytes, 0U);
    EXPECT_EQ(record.bytes.size(), JournalBytesOf(batch));
    EXPECT_EQ(record.last_seq(), 6 + rows.size());
    EXPECT_EQ(record.rows_bytes(), batch.bytes.size());
    const std::string file =
        std::string(record.bytes.view()) + "what is behind it";  // found.rows are views of it
    FoundRecord found;
    ASSERT_EQ(DecodeJournalRecord(file, kId, found), JournalBlock::kRecord);
    EXPECT_EQ(found.generation, 5U);
    EXPECT_EQ(found.first_seq, 7U);
    EXPECT_EQ(found.bytes, record.bytes.size());
    ASSERT_EQ(found.rows.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(found.rows[i], rows[i]);
      EXPECT_EQ(record.row(i), rows[i]);
    }
  }
}

TEST(JournalRecordTest, EveryFlippedBitAndEveryTruncationIsFound) {
  const RowBatch batch = BatchOf({std::string(300, 'a'), "", std::string(700, 'b')});
  std::string bytes(EncodeJournalRecord(kId, 5, batch).bytes.view());
  const std::size_t used = 56 + 3 * 4 + 1'000;
  for (std::size_t bit = 0; bit < used * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(Kind(bytes), bit < 56U * 8 ? JournalBlock::kOther : JournalBlock::kTorn) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
  for (std::size_t size = 0; size < used; ++size) {
    EXPECT_NE(Kind(std::string_view(bytes).substr(0, size)), JournalBlock::kRecord) << size;
  }
  FoundRecord found;
  EXPECT_EQ(DecodeJournalRecord(bytes, JournalId{9}, found), JournalBlock::kOther);
}

// Sound sums around numbers that are not: whoever reads them must not leave the bytes.
TEST(JournalRecordTest, NoiseIsNeverReadBeyondItsEnd) {
  std::mt19937 random(5);
  const JournalRecord record =
      EncodeJournalRecord(kId, 5, BatchOf({std::string(50, 'a'), std::string(60, 'b')}));
  const std::string good(record.bytes.view());
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, random() % good.size());
    for (int i = 0; i < 3 && !bytes.empty(); ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    FoundRecord found;
    if (DecodeJournalRecord(bytes, kId, found) != JournalBlock::kRecord) continue;
    for (const std::string_view row : found.rows) {
      EXPECT_LE(row.data() + row.size(), bytes.data() + bytes.size());
    }
  }
}

TEST(JournalRecordTest, AHeadIsReadOrFoundDamaged) {
  JournalHead head;
  head.ledger[3] = 4;
  head.id = kId;
  head.ring_bytes = kJournalRingBytesMin;
  std::string block = EncodeJournalHead(head);
  ASSERT_EQ(block.size(), kJournalBlockBytes);
  const auto read = DecodeJournalHead(block);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ledger, head.ledger);
  EXPECT_EQ(read->id, head.id);
  EXPECT_EQ(read->ring_bytes, head.ring_bytes);
  for (std::size_t bit = 0; bit < 68U * 8; ++bit) {
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeJournalHead(block)) << bit;
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ (1 << bit % 8));
  }
  EXPECT_FALSE(DecodeJournalHead(block.substr(0, 60)));
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, kJournalBlockBytes + 1, kJournalRingBytesMax + kJournalBlockBytes}) {
    head.ring_bytes = bytes;
    EXPECT_FALSE(DecodeJournalHead(EncodeJournalHead(head))) << bytes;
  }
}

TEST(JournalRecordTest, AStampIsReadOrFoundDamaged) {
  std::string block = EncodeJournalStamp(kId, {77, JournalStep::kClosed});
  ASSERT_EQ(block.size(), kJournalBlockBytes);
  EXPECT_EQ(DecodeJournalStamp(block, kId).generation, 77U);
  EXPECT_EQ(DecodeJournalStamp(block, kId).step, JournalStep::kClosed);
  EXPECT_EQ(DecodeJournalStamp(block, JournalId{9}).generation, 0U);
  EXPECT_EQ(DecodeJournalStamp(block.substr(0, 20), kId).generation, 0U);
  for (std::size_t bit = 0; bit < 37U * 8; ++bit) {
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ (1 << bit % 8));
    const JournalStamp stamp = DecodeJournalStamp(block, kId);
    EXPECT_EQ(stamp.generation, bit < 32U * 8 ? 0U : 77U) << bit;
    EXPECT_EQ(stamp.step, JournalStep::kAnnounced) << "which says least" << bit;
    block[bit / 8] = static_cast<char>(block[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(JournalRecordTest, TheStampOfAFirstFileHasNoStep) {
  std::string block = EncodeJournalStamp(kId, {77, JournalStep::kBegun});
  std::fill(block.begin() + 32, block.end(), '\0');
  EXPECT_EQ(DecodeJournalStamp(block, kId).generation, 77U);
  EXPECT_EQ(DecodeJournalStamp(block, kId).step, JournalStep::kAnnounced);
}

TEST(JournalRingTest, ItWrapsWaitsForItsOldestAndBeginsAnewWhenItIsEmpty) {
  JournalRing ring(10);
  EXPECT_EQ(ring.Take(4), 0U);
  EXPECT_EQ(ring.Take(4), 4U);
  EXPECT_EQ(ring.used(), 8U);
  EXPECT_FALSE(ring.Take(3)) << "neither behind the newest nor before the oldest";
  EXPECT_EQ(ring.Take(2), 8U);
  ring.Release(1);
  EXPECT_EQ(ring.Take(3), 0U) << "to the beginning";
  EXPECT_FALSE(ring.Take(2));
  EXPECT_EQ(ring.Take(1), 3U);
  EXPECT_FALSE(ring.Take(1)) << "it is full";
  ring.Release(4);
  EXPECT_EQ(ring.used(), 0U);
  EXPECT_EQ(ring.Take(10), 0U);
  EXPECT_FALSE(ring.Take(1));
  ring.Release(1);
  EXPECT_FALSE(ring.Take(11));
}

TEST(JournalRingTest, NoTwoRecordsThatAreNeededShareAByte) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t bytes = 5 + random() % 60;
    JournalRing ring(bytes);
    std::deque<std::pair<std::uint64_t, std::uint64_t>> parts;
    for (int step = 0; step < 2'000; ++step) {
      if (random() % 3 == 0 && !parts.empty()) {
        const std::size_t count = 1 + random() % parts.size();
        ring.Release(count);
        parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count));
        continue;
      }
      const std::uint64_t size = 1 + random() % (bytes / 2);
      const auto at = ring.Take(size);
      ASSERT_TRUE(at || !parts.empty()) << "half of the ring always fits into an empty one";
      if (!at) continue;
      ASSERT_LE(*at + size, bytes);
      for (const auto& [other, length] : parts) {
        ASSERT_TRUE(*at + size <= other || other + length <= *at);
      }
      parts.emplace_back(*at, size);
    }
  }
}

}  // namespace
}  // namespace recourse::journal_record_test
