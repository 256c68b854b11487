// In which order the check of the pages reads, over a file of the product.
#include "filters/ledger/lmdb/page_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::page_check_test {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// A file with a tree of three levels, or with rows that have pages of their own; and with lists of
// free pages that have such, too.
std::string BytesOfLedger(const std::string& directory, std::uint64_t rows,
                          std::size_t tool_bytes) {
  auto parts = OpenLmdbParts({.directory = directory, .map_bytes = 1U << 26, .unsafe_fs = true});
  if (!parts) return {};
  RowBatch batch;
  batch.first_seq = 1;
  Digest hash{};
  for (std::uint64_t seq = 1; seq <= rows; ++seq) {
    const std::size_t start = batch.bytes.size();
    Event event;
    event.id = event.operation = seq;
    event.tool = std::string(tool_bytes, 't');
    event.phase = Phase::kDispatching;
    AppendEventRow(batch.bytes, event, hash, nullptr);
    hash = RowHash(std::string_view(batch.bytes).substr(start));
    batch.ends.push_back(batch.bytes.size());
  }
  if (!parts->log->Append(batch)) return {};
  batch.Clear();
  batch.first_seq = rows + 1;
  batch.base = LogBase{rows / 3, {}};
  if (!parts->log->Append(batch)) return {};
  *parts = LedgerParts();
  std::ifstream file(directory + "/data.mdb", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Reads {
  std::size_t pages = 0, unexpected = 0;  // of the tree and the small databases
  std::size_t big = 0, unexpected_big = 0;
  std::size_t expected = 0;
};

Reads ReadsOf(const std::string& bytes, std::size_t pages_max) {
  Reads reads;
  std::set<std::uint64_t> expected;
  const auto read = [&](std::uint64_t offset, std::span<char> out) {
    if (offset + out.size() > bytes.size()) return false;
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    const bool is_big = out.size() < kPageBytes;  // the head of it
    ++(is_big ? reads.big : reads.pages);
    if (!expected.contains(offset / kPageBytes)) {
      ++(is_big ? reads.unexpected_big : reads.unexpected);
    }
    return true;
  };
  const auto expect = [&](std::uint64_t offset, std::uint64_t size) {
    EXPECT_EQ(offset % kPageBytes + size % kPageBytes, 0U);
    EXPECT_LE(offset + size, bytes.size());
    for (std::uint64_t at = offset; at < offset + size; at += kPageBytes) {
      expected.insert(at / kPageBytes);
    }
  };
  EXPECT_TRUE(CheckPages(read, expect, bytes.size(), pages_max));
  reads.expected = expected.size();
  return reads;
}

// A disk reads side by side what it was told in time; of a page after the other each is a wait.
TEST(PageCheckTest, APageIsExpectedBeforeItIsRead) {
  for (const auto& [rows, tool_bytes] : {std::pair{6'000U, 700U}, std::pair{3'000U, 3'000U}}) {
    const TempDirectory directory{FastParent()};
    const std::string bytes = BytesOfLedger(directory.data(), rows, tool_bytes);
    ASSERT_GT(bytes.size(), std::size_t{rows} * tool_bytes);
    const Reads reads = ReadsOf(bytes, 1'000'000);
    EXPECT_LT(reads.unexpected, 20U) << "roots, and the pages of the small databases";
    EXPECT_EQ(reads.unexpected_big, 0U);
    EXPECT_GT(reads.big, tool_bytes > kPageBytes / 2 ? 1'900U : 0U);
    EXPECT_GT(reads.pages + reads.big, 700U);
    EXPECT_LT(reads.expected, reads.pages + reads.big + 10) << "no more than is looked at";
  }
}

// So that a start takes as long however large the ledger, or its rows, are.
TEST(PageCheckTest, PagesOfLargeRowsCountToo) {
  const TempDirectory directory{FastParent()};
  const std::string bytes = BytesOfLedger(directory.data(), 3'000, 3'000);
  ASSERT_GT(bytes.size(), 3'000U * 3'000U);
  const Reads reads = ReadsOf(bytes, 100);
  EXPECT_LT(reads.pages + reads.big, 140U);
  EXPECT_LT(reads.expected, 250U);
  EXPECT_EQ(reads.unexpected_big, 0U);
}

}  // namespace
}  // namespace recourse::page_check_test
