#include "filters/ledger/lmdb/page_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace recourse {
namespace {

// LMDB 0.9.24, 64 bits, little-endian (mdb.c: MDB_page, MDB_meta, MDB_db, MDB_node).
constexpr std::uint32_t kPageMagic = 0xbeefc0de;
constexpr std::uint32_t kPageVersion = 1;
constexpr std::size_t kPageHead = 16;
constexpr std::size_t kLaterPageHead = 24;  // LMDB 1.0
constexpr std::size_t kNodeHead = 8;
constexpr std::size_t kDatabaseBytes = 48;
constexpr std::uint64_t kPageBytesMin = 4096, kPageBytesMax = 32'768;
constexpr std::uint64_t kNoRoot = ~std::uint64_t{0};
constexpr int kDepthMax = 32;
constexpr std::uint16_t kBranch = 1, kLeaf = 2, kOverflow = 4, kMetaPage = 8;
constexpr std::uint16_t kNodeBig = 1, kNodeDatabase = 2;

template <class Int>
Int At(std::span<const char> bytes, std::size_t at) {
  Int value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// What LMDB notes of the list of free pages; all databases of ours are plain.
constexpr std::uint16_t kFreeListFlags = 8;  // MDB_INTEGERKEY

struct Database {
  std::uint16_t flags = 0;
  std::uint16_t depth = 0;
  std::uint64_t entries = 0;
  std::uint64_t root = kNoRoot;
};

Database DatabaseAt(std::span<const char> bytes, std::size_t at) {
  return {At<std::uint16_t>(bytes, at + 4), At<std::uint16_t>(bytes, at + 6),
          At<std::uint64_t>(bytes, at + 32), At<std::uint64_t>(bytes, at + 40)};
}

struct Meta {
  std::uint32_t page_bytes = 0;
  Database free, main;
  std::uint64_t last_page = 0, transaction = 0;
};

struct Node {
  std::uint16_t flags = 0;
  std::uint64_t child = 0;  // branch pages
  std::string_view key, data;
  std::uint64_t data_bytes = 0;  // of the value, wherever it is
};

constexpr std::string_view kBackup = "restore it from a backup";

std::string Damaged(std::uint64_t page, std::string_view what) {
  return fmt::format("page {} is damaged ({}); {}", page, what, kBackup);
}

std::expected<Meta, std::string> ParseMeta(std::span<const char> bytes, std::uint64_t page) {
  if (At<std::uint32_t>(bytes, kLaterPageHead) == kPageMagic) {
    return std::unexpected(
        "it was written by LMDB 1.0, whose files this version cannot read; start the version that "
        "wrote it");
  }
  if (At<std::uint32_t>(bytes, kPageHead) != kPageMagic) {
    return std::unexpected(
        fmt::format("page {} is not the head of an LMDB file; {}", page, kBackup));
  }
  if (const auto version = At<std::uint32_t>(bytes, kPageHead + 4); version != kPageVersion) {
    return std::unexpected(fmt::format(
        "it has LMDB's file format {}, this version reads {}; start the version that wrote it",
        version, kPageVersion));
  }
  if (At<std::uint64_t>(bytes, 0) != page || At<std::uint16_t>(bytes, 10) != kMetaPage) {
    return std::unexpected(Damaged(page, "its head is not that of a meta page"));
  }
  Meta meta;
  meta.page_bytes = At<std::uint32_t>(bytes, kPageHead + 24);
  meta.free = DatabaseAt(bytes, kPageHead + 24);
  meta.main = DatabaseAt(bytes, kPageHead + 24 + kDatabaseBytes);
  meta.last_page = At<std::uint64_t>(bytes, kPageHead + 24 + 2 * kDatabaseBytes);
  meta.transaction = At<std::uint64_t>(bytes, kPageHead + 32 + 2 * kDatabaseBytes);
  if (meta.page_bytes < kPageBytesMin || meta.page_bytes > kPageBytesMax ||
      !std::has_single_bit(meta.page_bytes)) {
    return std::unexpected(fmt::format(
        "its pages have {} bytes, which this version cannot read; {}", meta.page_bytes, kBackup));
  }
  if (meta.free.flags != kFreeListFlags || meta.main.flags != 0) {
    return std::unexpected(Damaged(page, "the kind of a database"));
  }
  return meta;
}

// The meta page of the newest commit. Commits alternate between the two, so their numbers follow
// each other: if they do not, one is wrong and the newest commit cannot be told.
struct Metas {
  Meta newest, older;
};

std::expected<Metas, std::string> ReadMetas(const ReadBytes& read, std::uint64_t file_bytes) {
  char bytes[kPageBytesMin];
  if (!read(0, bytes)) return std::unexpected(fmt::format("it is cut off; {}", kBackup));
  const auto first = ParseMeta(bytes, 0);
  if (!first) return std::unexpected(first.error());
  if (!read(first->page_bytes, bytes)) {
    return std::unexpected(fmt::format("it is cut off; {}", kBackup));
  }
  const auto second = ParseMeta(bytes, 1);
  if (!second) return std::unexpected(second.error());
  const bool second_is_newer = second->transaction > first->transaction;
  const Meta& newest = second_is_newer ? *second : *first;
  const Meta& older = second_is_newer ? *first : *second;
  const bool is_new = newest.transaction == 0 && older.transaction == 0;
  if (second->page_bytes != first->page_bytes ||
      (!is_new && (newest.transaction != older.transaction + 1 ||
                   (newest.transaction & 1U) != (second_is_newer ? 1U : 0U)))) {
    return std::unexpected(Damaged(second_is_newer ? 1 : 0, "the two meta pages do not match"));
  }
  if (newest.last_page >= file_bytes / newest.page_bytes) {
    return std::unexpected(
        fmt::format("it has {} bytes and must have {} more pages; it was cut off, {}", file_bytes,
                    newest.last_page + 1 - file_bytes / newest.page_bytes, kBackup));
  }
  if (older.last_page > newest.last_page) {
    return std::unexpected(Damaged(second_is_newer ? 1 : 0, "the number of pages"));
  }
  return Metas{newest, older};
}

class PageWalk {
 public:
  PageWalk(const ReadBytes& read, const ExpectBytes& expect, const Meta& meta,
           std::size_t pages_max)
      : read_(read),
        expect_(expect),
        meta_(meta),
        pages_left_(pages_max),
        seen_(meta.last_page + 1) {}

  // False: problem() says what is wrong.
  bool Check() {
    if (!CheckFreeList()) return false;
    is_main_ = true;
    if (!CheckDatabase(meta_.main)) return false;
    is_main_ = false;
    // The small ones first: their pages are looked at whatever the large ones need.
    std::sort(named_.begin(), named_.end(),
              [](const Database& a, const Database& b) { return a.entries < b.entries; });
    return std::all_of(named_.begin(), named_.end(),
                       [this](const Database& database) { return CheckDatabase(database); });
  }
  // Every commit notes the pages that it freed under its own number, which therefore stands in the
  // file twice; the first one after an empty file has freed nothing.
  bool CheckFreeList() {
    is_free_list_ = true;
    if (!CheckDatabase(meta_.free)) return false;
    is_free_list_ = false;
    return meta_.transaction < 2 || newest_freed_ == meta_.transaction ||
           Fail(meta_.transaction & 1U, "the number of its commit");
  }
  const std::string& problem() const { return problem_; }

 private:
  bool Fail(std::uint64_t page, std::string_view what) {
    if (problem_.empty()) problem_ = Damaged(page, what);
    return false;
  }

  bool CheckDatabase(const Database& database) {
    if (database.root == kNoRoot) {
      return database.entries == 0 || Fail(meta_.last_page, "a database has no root");
    }
    entries_ = 0;
    is_whole_ = true;
    if (database.depth == 0 || database.depth > kDepthMax) {
      return Fail(database.root, "the depth of its tree is wrong");
    }
    if (!CheckTree(database.root, database.depth)) return false;
    return !is_whole_ || entries_ == database.entries ||
           Fail(database.root, "the number of its entries is wrong");
  }

  // Each page belongs to one place only.
  bool Take(std::uint64_t first, std::uint64_t count) {
    if (first < 2 || count == 0 || first > meta_.last_page || count > meta_.last_page + 1 - first) {
      return Fail(first, "there is no such page");
    }
    for (std::uint64_t page = first; page < first + count; ++page) {
      if (seen_[page]) return Fail(page, "it is used twice");
      seen_[page] = true;
    }
    return true;
  }

  bool CheckTree(std::uint64_t page, int depth) {
    const bool is_small = is_free_list_ || is_main_;
    if (!is_small && pages_left_ == 0) {
      is_whole_ = false;
      return true;
    }
    if (!is_small) --pages_left_;
    if (!Take(page, 1)) return false;
    std::vector<char> bytes(meta_.page_bytes);
    if (!read_(page * meta_.page_bytes, bytes)) return Fail(page, "it cannot be read");
    const std::uint16_t kind = depth > 1 ? kBranch : kLeaf;
    std::vector<Node> nodes;
    if (!ParsePage(page, bytes, kind, nodes)) return false;
    ExpectBelow(kind, nodes);
    // The newest pages are on the right.
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (kind == kBranch ? !CheckTree(node->child, depth - 1) : !CheckEntry(page, *node)) {
        return false;
      }
    }
    if (kind == kLeaf) entries_ += nodes.size();
    return true;
  }

  // One page after the other would be a wait for the disk each: after a restart of the machine the
  // pages of a large ledger are in no cache.
  void ExpectBelow(std::uint16_t kind, const std::vector<Node>& nodes) {
    std::size_t left = is_free_list_ || is_main_ ? nodes.size() : pages_left_;
    std::vector<std::uint64_t> pages;
    for (auto node = nodes.rbegin(); node != nodes.rend() && left > 0; ++node) {
      if (kind == kLeaf && (node->flags & kNodeBig) == 0) continue;
      const auto first = kind == kBranch ? node->child : At<std::uint64_t>(node->data, 0);
      const std::uint64_t count = kind == kLeaf && is_free_list_ ? PagesOfBig(node->data_bytes) : 1;
      if (first > meta_.last_page || count > meta_.last_page + 1 - first) continue;
      --left;
      for (std::uint64_t page = first; page < first + count; ++page) pages.push_back(page);
    }
    std::sort(pages.begin(), pages.end());
    for (std::size_t first = 0, next = 1; first < pages.size(); first = next++) {
      while (next < pages.size() && pages[next] == pages[next - 1] + 1) ++next;
      expect_(pages[first] * meta_.page_bytes, (next - first) * meta_.page_bytes);
    }
  }

  std::uint64_t PagesOfBig(std::uint64_t bytes) const {
    return (kPageHead + bytes + meta_.page_bytes - 1) / meta_.page_bytes;
  }

  // Where every node lies, and that together they fill the page.
  bool ParsePage(std::uint64_t page, std::span<const char> bytes, std::uint16_t kind,
                 std::vector<Node>& nodes) {
    // Flags of a page that is being written never reach the disk, and LMDB would write through the
    // map where it finds them.
    const auto flags = At<std::uint16_t>(bytes, 10);
    const std::size_t lower = At<std::uint16_t>(bytes, 12), upper = At<std::uint16_t>(bytes, 14);
    if (At<std::uint64_t>(bytes, 0) != page || flags != kind) return Fail(page, "its head");
    if (lower < kPageHead + 2 || lower % 2 != 0 || upper < lower || upper > bytes.size()) {
      return Fail(page, "its size");
    }
    std::size_t used = 0;
    for (std::size_t at = kPageHead; at < lower; at += 2) {
      const std::size_t start = At<std::uint16_t>(bytes, at);
      if (start < upper || start % 2 != 0 || start + kNodeHead > bytes.size()) {
        return Fail(page, "the place of an entry");
      }
      Node node;
      const auto low = At<std::uint32_t>(bytes, start);
      node.flags = At<std::uint16_t>(bytes, start + 4);
      const std::size_t key_bytes = At<std::uint16_t>(bytes, start + 6);
      node.child = low | std::uint64_t{node.flags} << 32;
      node.data_bytes = low;
      std::uint64_t inside = kind == kBranch ? 0 : low;
      if (kind == kLeaf && (node.flags & kNodeBig) != 0) inside = sizeof(std::uint64_t);
      if (start + kNodeHead + key_bytes + inside > bytes.size()) {
        return Fail(page, "the size of an entry");
      }
      node.key = {bytes.data() + start + kNodeHead, key_bytes};
      node.data = {node.key.data() + key_bytes, inside};
      // A branch leaves out its first key.
      const bool has_order = !nodes.empty() && (kind == kLeaf || nodes.size() > 1);
      if (has_order && !IsBefore(nodes.back().key, node.key)) return Fail(page, "its order");
      used += (kNodeHead + key_bytes + inside + 1) & ~std::size_t{1};
      nodes.push_back(node);
    }
    return used == bytes.size() - upper || Fail(page, "its entries do not fill it");
  }

  bool IsBefore(std::string_view a, std::string_view b) const {
    if (!is_free_list_) return a < b;
    return a.size() == sizeof(std::uint64_t) && b.size() == a.size() &&
           At<std::uint64_t>(a, 0) < At<std::uint64_t>(b, 0);
  }

  bool CheckEntry(std::uint64_t page, const Node& node) {
    std::vector<char> big;
    std::span<const char> data = node.data;
    if ((node.flags & ~(kNodeBig | kNodeDatabase)) != 0) return Fail(page, "the kind of an entry");
    if ((node.flags & kNodeBig) != 0) {
      // A leaf names a page for each large row: without a bound these would be hundreds of times as
      // many as the pages of the tree.
      const bool is_row = !is_free_list_ && !is_main_;
      if (is_row && pages_left_ == 0) return true;
      if (is_row) --pages_left_;
      if (!ReadBig(At<std::uint64_t>(node.data, 0), node.data_bytes, big)) return false;
      data = big;
    }
    if (is_free_list_) {
      if (node.key.size() != sizeof(std::uint64_t)) return Fail(page, "a list of free pages");
      newest_freed_ = std::max(newest_freed_, At<std::uint64_t>(node.key, 0));
      return CheckFreed(page, data);
    }
    if ((node.flags & kNodeDatabase) != 0) {
      if (!is_main_ || data.size() != kDatabaseBytes) return Fail(page, "a database's record");
      named_.push_back(DatabaseAt(data, 0));
      if (named_.back().flags != 0) return Fail(page, "the kind of a database");
    }
    return true;
  }

  bool ReadBig(std::uint64_t first, std::uint64_t size, std::vector<char>& out) {
    char head[kPageHead];
    if (first > meta_.last_page || !read_(first * meta_.page_bytes, head)) {
      return Fail(first, "there is no such page");
    }
    const auto count = At<std::uint32_t>(head, 12);
    const auto flags = At<std::uint16_t>(head, 10);
    if (At<std::uint64_t>(head, 0) != first || flags != kOverflow || count != PagesOfBig(size)) {
      return Fail(first, "its head");
    }
    if (!Take(first, count)) return false;
    if (!is_free_list_) return true;  // what rows hold is checked by their own sums
    out.resize(size);
    return read_(first * meta_.page_bytes + kPageHead, out) || Fail(first, "it cannot be read");
  }

  // A list of free pages: its length, then page numbers from high to low.
  bool CheckFreed(std::uint64_t page, std::span<const char> data) {
    if (data.size() < sizeof(std::uint64_t)) return Fail(page, "a list of free pages");
    const auto count = At<std::uint64_t>(data, 0);
    if (count > data.size() / sizeof(std::uint64_t) - 1) return Fail(page, "a list of free pages");
    std::uint64_t before = meta_.last_page + 1;
    for (std::uint64_t i = 1; i <= count; ++i) {
      const auto freed = At<std::uint64_t>(data, i * sizeof(std::uint64_t));
      if (freed >= before) return Fail(page, "a list of free pages");
      if (!Take(freed, 1)) return false;
      before = freed;
    }
    return true;
  }

  const ReadBytes& read_;
  const ExpectBytes& expect_;
  const Meta& meta_;
  std::size_t pages_left_;
  std::vector<bool> seen_;
  std::vector<Database> named_;
  std::string problem_;
  std::uint64_t entries_ = 0;  // of the database that is looked at
  std::uint64_t newest_freed_ = 0;
  bool is_free_list_ = false, is_main_ = false, is_whole_ = true;
};

}  // namespace

std::expected<PageFacts, std::string> CheckPages(const ReadBytes& read, const ExpectBytes& expect,
                                                 std::uint64_t file_bytes, std::size_t pages_max) {
  const auto metas = ReadMetas(read, file_bytes);
  if (!metas) return std::unexpected(metas.error());
  PageWalk walk(read, expect, metas->newest, pages_max);
  if (!walk.Check()) return std::unexpected(walk.problem());
  // What the commit before left is not used again yet, so its free list is whole, unless LMDB undid
  // a commit whose head could not be written: it puts back the number only.
  Meta older = metas->older;
  older.last_page = metas->newest.last_page;
  PageWalk before(read, expect, older, 0);
  return PageFacts{metas->newest.transaction, before.CheckFreeList()};
}

}  // namespace recourse
