#include "tests/sim/fleet_table.h"

#include <algorithm>

namespace recourse::fleet_sim {
namespace {

constexpr std::int64_t kAnswersWithin = 3'000;  // or the connection is given up

std::unexpected<Error> Lost() {
  return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "no answer"));
}

}  // namespace

StreamRow* PodTable::Find(std::uint64_t stream) {
  const auto found = db_.streams.find(stream);
  return found == db_.streams.end() ? nullptr : &found->second;
}

Result<StreamTable::Listed> PodTable::List() {
  if (!Reaches()) return Lost();
  Listed listed;
  for (const auto& [number, row] : db_.streams) {
    if (row.state == 1) ++listed.processes;
    if (row.state == 1 && row.has_open) listed.open.push_back({number, row.beat, true});
    if (row.state != 2) continue;
    const StreamRow* const taker = Find(row.taken_by);
    if (row.taken_by == parts_.stream || taker == nullptr || taker->state != 1) {
      listed.abandoned.push_back({number, row.taken_by});
    }
  }
  const StreamEnd own = parts_.acknowledged();
  const StreamEnd found = db_.EndOf(parts_.stream, own).value_or(StreamEnd());
  if (SeemsGone(own, found, own)) parts_.behind();
  return listed;
}

Result<std::vector<Watch::Beat>> PodTable::Beats(std::span<const std::uint64_t> streams) {
  if (!Reaches()) return Lost();
  std::vector<Watch::Beat> beats;
  for (const std::uint64_t number : streams) {
    const StreamRow* const row = Find(number);
    if (row != nullptr && row->state == 1) beats.push_back({number, row->beat, row->has_open});
  }
  const bool is_slow = parts_.world.dice.Percent(3);
  parts_.in_call = parts_.world.dice.Below(is_slow ? 3'000 : 30);
  return beats;
}

Result<void> PodTable::TellWentBack(Watch::Silent seen) {
  if (!Reaches()) return Lost();
  const StreamRow* const row = Find(seen.stream);
  const bool looks = parts_.world.faults.without != Mutant::kEndIgnored;
  if (looks && row != nullptr && row->beat < seen.beat) parts_.world.NoticeLoss(seen.stream);
  return {};
}

Result<bool> PodTable::Declare(Watch::Silent silent) {
  if (!Reaches()) return Lost();
  // It waits for a batch that is being committed, and finds another beat.
  const auto locked = std::max(db_.LockedUntil(silent.stream), db_.LockedUntil(parts_.stream));
  if (const auto left = locked - parts_.world.now; left >= 0) {
    parts_.in_call = std::min(left, kAnswersWithin);
    if (left > kAnswersWithin) return Lost();
    return false;
  }
  StreamRow* const row = Find(silent.stream);
  if (row == nullptr || row->state != 1 || row->beat != silent.beat) return false;
  row->state = 2;
  row->taken_by = parts_.stream;
  ++db_.takeovers;
  Tell("declared dead: stream ", silent.stream);
  if (parts_.world.LosesAnswer()) return Lost();
  return true;
}

Result<bool> PodTable::Adopt(Abandoned abandoned) {
  if (!Reaches()) return Lost();
  StreamRow* const row = Find(abandoned.stream);
  if (row == nullptr || row->state != 2 || row->taken_by != abandoned.taken_by) return false;
  row->taken_by = parts_.stream;
  Tell("adopted: stream ", abandoned.stream);
  return true;
}

// What was taken over may have come back to life with an older state.
Result<bool> PodTable::TakeOverSome(std::uint64_t stream) {
  if (!Reaches()) return Lost();
  const StreamRow* const row = Find(stream);
  if (row == nullptr || row->state != 2 || row->taken_by != parts_.stream) return true;
  auto done = db_.TakeOverSome(stream, parts_.stream, parts_.birth, parts_.world.now);
  if (done && *done) Tell("taken over: stream ", stream);
  return done;
}

}  // namespace recourse::fleet_sim
