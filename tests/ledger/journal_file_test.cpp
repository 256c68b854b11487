#include "filters/ledger/lmdb/journal_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/ledger/ledger_test_support.h"

namespace recourse::journal_file_test {
namespace {

// In memory, and on what the disk of this machine is formatted with.
TEST(JournalFileTest, WhatIsWrittenPastTheCacheIsWhatIsRead) {
  for (const auto& parent : {FastParent(), std::filesystem::temp_directory_path()}) {
    const TempDirectory directory(parent);
    const std::string path = directory.path() + "/journal";
    JournalHead head;
    head.id = JournalId{7};
    head.ring_bytes = kJournalRingBytesMin;
    ASSERT_TRUE(JournalFile::Make(path, head));
    auto written = JournalFile::Open(path, head.ledger);
    ASSERT_TRUE(written && *written);
    (*written)->GoPastCache();
    RowBatch batch;
    batch.first_seq = 1;
    batch.bytes = std::string(10'000, 'r');
    batch.ends = {10'000};
    const auto first = EncodeJournalRecord(head.id, 1, batch);
    batch.bytes = std::string(10, 's');
    batch.ends = {10};
    const auto second = EncodeJournalRecord(head.id, 1, batch);
    ASSERT_TRUE((*written)->Stamp({1, JournalStep::kBegun}));
    ASSERT_TRUE((*written)->Write(0, first.bytes));
    ASSERT_TRUE((*written)->Write(first.bytes.size(), second.bytes));
    ASSERT_TRUE((*written)->Stamp({2, JournalStep::kClosed}));
    auto read = JournalFile::Open(path, head.ledger);
    ASSERT_TRUE(read && *read);
    EXPECT_EQ((*read)->stamp().generation, 2U);
    const auto ring = (*read)->ReadRing();
    ASSERT_TRUE(ring);
    std::string expected(first.bytes.view());
    expected.append(second.bytes.view());
    expected.resize(ring->view().size());
    EXPECT_EQ(ring->view(), expected) << parent;
  }
}

}  // namespace
}  // namespace recourse::journal_file_test
