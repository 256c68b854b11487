#include "filters/ledger/lmdb/journal_ring.h"

#include "proxy/base/check.h"

namespace recourse {

std::optional<std::uint64_t> JournalRing::Take(std::uint64_t size) {
  RC_CHECK(size > 0);
  // An empty ring begins anew: few writes touch few pages.
  std::uint64_t at = 0, end = bytes_;
  if (!parts_.empty()) {
    const std::uint64_t oldest = parts_.front().at;
    at = parts_.back().at + parts_.back().size;
    const bool is_wrapped = parts_.back().at < oldest;
    if (is_wrapped) {
      end = oldest;
    } else if (bytes_ - at < size) {
      at = 0;
      end = oldest;
    }
  }
  if (end - at < size) return std::nullopt;
  parts_.push_back({at, size});
  used_ += size;
  return at;
}

void JournalRing::Release(std::size_t count) {
  RC_CHECK(count <= parts_.size());
  for (; count > 0; --count) {
    used_ -= parts_.front().size;
    parts_.pop_front();
  }
}

}  // namespace recourse
