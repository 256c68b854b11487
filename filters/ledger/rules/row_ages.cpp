#include "filters/ledger/rules/row_ages.h"

#include <algorithm>
#include <utility>

#include "proxy/base/bytes.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::uint32_t kAgesVersion = 1;

}  // namespace

RowAges::RowAges(std::string_view bytes, std::uint64_t last_seq, MonoTime now) : started_(now) {
  ByteReader reader(bytes);
  const auto version = reader.Int<std::uint32_t>();
  lived_ms_ = reader.Int<std::int64_t>();
  const auto count = reader.Int<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    SetMark mark;
    mark.seq = reader.Int<std::uint64_t>();
    mark.lived_ms = reader.Int<std::int64_t>();
    marks_.push_back(mark);
  }
  if (!reader.at_end() || version != kAgesVersion) {
    lived_ms_ = 0;
    marks_.assign(1, {last_seq, 0});
  }
  noted_ms_ = lived_ms_;
}

bool RowAges::Mark(MonoTime now, std::uint64_t last_seq, Millis spacing) {
  const std::int64_t lived_ms = LivedMs(now);
  if (lived_ms - noted_ms_ < spacing.count()) return false;
  noted_ms_ = lived_ms;
  // Without a new row the earlier mark says more.
  if (!marks_.empty() && marks_.back().seq == last_seq) return true;
  if (marks_.size() >= limits::kAgeMarksMax) {
    // Leaving marks out only makes rows seem younger.
    std::deque<SetMark> kept;
    for (std::size_t i = 0; i < marks_.size(); i += 2) kept.push_back(marks_[i]);
    marks_ = std::move(kept);
  }
  marks_.push_back({last_seq, lived_ms});
  return true;
}

std::uint64_t RowAges::OldThrough(MonoTime now, Millis age) const {
  const std::int64_t latest_ms = LivedMs(now) - age.count();
  std::uint64_t through = 0;
  for (const SetMark& mark : marks_) {
    if (mark.lived_ms > latest_ms) break;
    through = mark.seq;
  }
  return through;
}

std::int64_t RowAges::LeastAgeMs(MonoTime now, std::uint64_t seq) const {
  const auto mark = std::ranges::lower_bound(marks_, seq, {}, &SetMark::seq);
  return mark == marks_.end() ? 0 : LivedMs(now) - mark->lived_ms;
}

void RowAges::Forget(std::uint64_t through) {
  while (!marks_.empty() && marks_.front().seq <= through) marks_.pop_front();
}

std::string RowAges::Encode(MonoTime now) const {
  std::string bytes;
  ByteWriter writer(bytes);
  writer.Int(kAgesVersion);
  writer.Int(LivedMs(now));
  writer.Int(static_cast<std::uint32_t>(marks_.size()));
  for (const SetMark& mark : marks_) {
    writer.Int(mark.seq);
    writer.Int(mark.lived_ms);
  }
  return bytes;
}

}  // namespace recourse
