// The operations that run or have an outcome that nobody knows, and the marks that they may leave.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "filters/ledger/rows/row_codec.h"
#include "filters/ledger/rules/key_entry.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/quotas.h"

namespace recourse {

struct OpenOperation {
  Digest key{};
  std::uint64_t last_event = 0;
  std::int64_t since_ms = 0;
  Phase phase = Phase::kNone;
  QuotaUsage::Use* caller = nullptr;  // while it is DISPATCHING, if this process began it
  bool may_have_more = true;          // than its request in its extension: an approval, a state
  std::uint64_t intent_before = 0;    // the operation that stood for its intent; 0: none
  std::uint64_t told = 0;  // row that said how it stands, however often that row was carried on
};

// One thread at a time.
class OpenOperations {
 public:
  const std::map<std::uint64_t, OpenOperation>& all() const { return open_; }
  std::size_t size() const { return open_.size(); }
  std::uint64_t running() const { return running_; }
  // nullptr: it is over.
  OpenOperation* Find(std::uint64_t operation);
  // Its first row that is kept here. `commits` counts, so that many are looked through now and then
  // only; 0: none is open.
  std::int64_t OldestMs(std::uint64_t commits);

  // Takes it in as it is now, or out.
  void Track(std::uint64_t operation, const OpenOperation& state, bool is_observed);

  // `marks` are those of the write.
  void NoteMarks(const std::vector<Mark>& marks, const EventFront& front, const KeyEntry* previous);
  bool has_marks() const { return !marks_.empty(); }
  std::vector<OpenWritesAt::Open> At(const Digest& mark, std::uint64_t since);

 private:
  std::map<std::uint64_t, OpenOperation> open_;
  // The operations in open_ by the marks that they may leave.
  std::unordered_multimap<Digest, std::uint64_t, DigestHash> marks_;
  std::uint64_t running_ = 0;
  std::int64_t oldest_ms_ = 0;
};

}  // namespace recourse
