// In which order the check of the pages reads, over a file of the product.
#include "filters/ledger/lmdb/page_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "filters/ledger/lmdb/open.h"
#include "filters/ledger/record_codec.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kRows = 6'000;

// A file whose tree of rows has three levels.
std::string BytesOfLedger(const std::string& directory) {
  auto parts = OpenLmdbParts({.directory = directory, .map_bytes = 1U << 25, .unsafe_fs = true});
  if (!parts) return {};
  RowBatch batch;
  batch.first_seq = 1;
  Digest hash{};
  for (std::uint64_t seq = 1; seq <= kRows; ++seq) {
    const std::size_t start = batch.bytes.size();
    Event event;
    event.id = event.operation = seq;
    event.tool = std::string(700, 't');
    event.phase = Phase::kDispatching;
    AppendEventRow(batch.bytes, event, hash, nullptr);
    hash = RowHash(std::string_view(batch.bytes).substr(start));
    batch.ends.push_back(batch.bytes.size());
  }
  if (!parts->log->Append(batch)) return {};
  *parts = LedgerParts();
  std::ifstream file(directory + "/data.mdb", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A disk reads side by side what it was told in time; of a page after the other each is a wait.
TEST(PageCheckTest, APageIsExpectedBeforeItIsReadAndNoMoreThanAreLookedAt) {
  const TempDirectory directory{FastParent()};
  const std::string bytes = BytesOfLedger(directory.data());
  ASSERT_GT(bytes.size(), kRows * 700);
  for (const std::size_t pages_max : {std::size_t{50}, std::size_t{1'000'000}}) {
    std::set<std::uint64_t> expected;
    std::size_t reads = 0, surprises = 0;
    const auto read = [&](std::uint64_t offset, std::span<char> out) {
      if (offset + out.size() > bytes.size()) return false;
      std::memcpy(out.data(), bytes.data() + offset, out.size());
      ++reads;
      if (!expected.contains(offset / kPageBytes)) ++surprises;
      return true;
    };
    const auto expect = [&](std::uint64_t offset, std::uint64_t size) {
      ASSERT_EQ(offset % kPageBytes + size % kPageBytes, 0U);
      ASSERT_LE(offset + size, bytes.size());
      for (std::uint64_t at = offset; at < offset + size; at += kPageBytes) {
        expected.insert(at / kPageBytes);
      }
    };
    ASSERT_TRUE(CheckPages(read, expect, bytes.size(), pages_max));
    EXPECT_LT(surprises, 16U) << "roots, and the pages of the small databases";
    EXPECT_GT(reads, pages_max < kRows ? 50U : 1'000U);
    EXPECT_LE(expected.size(), pages_max < kRows ? 100U : reads);
  }
}

}  // namespace
}  // namespace recourse
