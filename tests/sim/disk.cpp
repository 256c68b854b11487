#include "tests/sim/disk.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace recourse {

class SimDisk::Log final : public EventLog {
 public:
  explicit Log(SimDisk& disk) : disk_(disk) {}
  std::expected<void, AppendError> Append(const RowBatch& batch) override {
    RowBatch kept = batch;
    kept.base.reset();
    if (auto done = disk_.every_row_.Append(kept); !done) return done;
    return disk_.log_.Append(batch);
  }
  std::unique_ptr<Reader> NewReader() override { return disk_.log_.NewReader(); }
  std::uint64_t last_seq() override { return disk_.log_.last_seq(); }
  LogBase base() override { return disk_.log_.base(); }
  std::string LoadAges() override { return disk_.log_.LoadAges(); }
  LogSizes sizes() override { return disk_.log_.sizes(); }
  LogSpace Space(std::uint64_t need) override { return disk_.log_.Space(need); }

 private:
  SimDisk& disk_;
};

class SimDisk::Index final : public ColdIndex {
 public:
  explicit Index(SimDisk& disk) : disk_(disk) {}
  std::optional<ColdEntry> FindKey(const Digest& key) override {
    const auto found = disk_.keys_.find(key);
    return found == disk_.keys_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::uint64_t> FindIntent(const Digest& intent) override {
    const auto found = disk_.intents_.find(intent);
    return found == disk_.intents_.end() ? std::nullopt : std::optional(found->second);
  }
  bool is_damaged() const override { return false; }
  std::expected<void, std::string> Write(const IndexSnapshot& snapshot) override {
    return disk_.Store(snapshot);
  }
  std::optional<IndexMark> LoadMark() override { return disk_.mark_; }
  std::expected<void, std::string> Clear() override {
    disk_.keys_.clear();
    disk_.intents_.clear();
    disk_.mark_.reset();
    return {};
  }

 private:
  SimDisk& disk_;
};

LedgerParts SimDisk::Open() {
  return {.resources = nullptr,
          .log = std::make_unique<Log>(*this),
          .cold = std::make_unique<Index>(*this),
          .hot_entries_max = scale_.hot_entries_max};
}

// Entries first, the mark last: it may stop before either.
std::expected<void, std::string> SimDisk::Store(const IndexSnapshot& snapshot) {
  if (dice_.Percent(scale_.index_fault_percent)) return std::unexpected("no room");
  for (const auto& [key, entry] : snapshot.keys) {
    keys_[key] = {entry.last_event, entry.newest_generation, entry.is_answered};
  }
  for (const auto& [intent, operation] : snapshot.intents) intents_[intent] = operation;
  if (dice_.Percent(scale_.index_fault_percent)) return std::unexpected("no room for the mark");
  const IndexMark& mark = snapshot.mark;
  const auto rises = [](const auto& list) {
    return std::ranges::adjacent_find(list, [](const auto& a, const auto& b) {
             return a.operation >= b.operation;
           }) == list.end();
  };
  if (!rises(mark.open) || !rises(mark.moved)) {
    problems_.emplace_back("the index cannot be written: MDB_KEYEXIST");
    return std::unexpected(problems_.back());
  }
  mark_ = mark;
  ++checkpoints_;
  std::unordered_set<std::uint64_t> kept;
  for (const OpenReference& open : mark.open) kept.insert(open.operation);
  for (const MovedOperation& moved : mark.moved) kept.insert(moved.operation);
  std::erase_if(keys_, [&](const auto& one) { return one.second.last_event < mark.first_seq; });
  std::erase_if(intents_, [&](const auto& one) {
    return one.second < mark.first_seq && !kept.contains(one.second);
  });
  Note(mark);
  return {};
}

void SimDisk::Note(const IndexMark& mark) {
  std::string bytes;
  const auto reader = log_.NewReader();
  bool has_claim = false;
  for (const OpenReference& open : mark.open) {
    EventFront front;
    if (!reader->Read(open.last_event, bytes)) continue;
    const auto row = ParseRow(bytes);
    if (!row || !DecodeEventFront(*row, front)) continue;
    if (IsClaim(front.phase)) has_claim = true;
    if (has_claim && IsOpen(front.phase)) {
      ++with_older_claims_;
      return;
    }
  }
}

}  // namespace recourse
