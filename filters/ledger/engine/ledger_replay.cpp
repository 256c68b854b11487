#include "filters/ledger/engine/ledger_replay.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "proxy/base/limits.h"

namespace recourse {

std::expected<void, std::uint64_t> LedgerReplay::Restore(const IndexMark& mark) {
  state_.accepted_row = mark.accepted_seq;
  if (!state_.flows.Decode(mark.flows, state_.clock.Now())) {
    return std::unexpected(mark.applied_seq);
  }
  state_.index.Restore(mark);
  LogHead head{mark.applied_seq, 0, mark.applied_hash};
  if (state_.log.reader().Read(mark.applied_seq, row_)) {
    if (const auto row = ParseRow(row_)) head.epoch = row->head.epoch;
  }
  state_.log.SetHead(head);
  for (const OpenReference& open : mark.open) {
    if (!RestoreOpen(open)) return std::unexpected(open.last_event);
  }
  return {};
}

bool LedgerReplay::RestoreOpen(const OpenReference& open) {
  // Retention moved it behind the mark, where it will be found.
  if (open.last_event < state_.log.first_row()) return true;
  if (!state_.log.reader().Read(open.last_event, row_)) return false;
  const auto row = ParseRow(row_);
  EventFront front;
  if (!row || !DecodeEventFront(*row, front)) return false;
  if (IsClaim(front.phase)) {
    state_.claims.Replay(*row, front);
    return true;
  }
  const bool is_moved = front.cause == Cause::kCarried;
  state_.index.ReplayOpen(front, open.last_event);
  state_.open.Track(open.operation,
                    {front.key, open.last_event, row->head.wall_ms, front.phase, nullptr, true, 0,
                     is_moved ? front.stands.dispatched : open.last_event},
                    front.verdict != ObserveVerdict::kNone);
  return true;
}

std::expected<void, std::string_view> LedgerReplay::Replay(std::uint64_t seq,
                                                           std::string_view bytes) {
  const LogHead& head = state_.log.head();
  const auto row = ParseRow(bytes);
  if (!row) return std::unexpected(row.error());
  if (row->head.seq != seq || seq != head.seq + 1) return std::unexpected("row number is wrong");
  if (row->head.prev_hash != head.hash) return std::unexpected("hash chain is broken");
  if (!ReplayPayload(*row)) return std::unexpected("payload cannot be read");
  state_.log.SetHead({seq, row->head.epoch, RowHash(bytes)});
  return {};
}

bool LedgerReplay::ReplayPayload(const RowView& row) {
  switch (row.head.kind) {
    case RowKind::kEpoch:
      return true;
    case RowKind::kPolicy: {
      PolicyChange change;
      state_.policy_row = row.head.seq;
      return DecodePolicy(row, change);
    }
    case RowKind::kOrder:
      return ReplayOrder(row);
    case RowKind::kRetired: {
      RetiredRow retired;
      if (!DecodeRetired(row, retired)) return false;
      state_.index.Replay(retired, row.head.seq);
      return true;
    }
    case RowKind::kAlias: {
      Alias alias;
      return DecodeAlias(row, alias) &&
             state_.index.keys().PutAlias(alias, row.head.seq, row.head.wall_ms);
    }
    case RowKind::kAnswered:
      return ReplayAnswered(row);
    case RowKind::kFlow: {
      FlowState flow;
      if (!DecodeFlow(row, flow)) return false;
      state_.flows.Apply(std::move(flow), state_.clock.Now());
      return true;
    }
    case RowKind::kEvent:
      return ReplayEvent(row);
    case RowKind::kVoid:
      break;
  }
  return false;
}

bool LedgerReplay::ReplayOrder(const RowView& row) {
  OperatorOrder order;
  if (!DecodeOrder(row, order)) return false;
  if (order.what == kAcceptOrder) state_.accepted_row = row.head.seq;
  return true;
}

bool LedgerReplay::ReplayAnswered(const RowView& row) {
  std::vector<std::uint64_t> operations;
  if (!DecodeAnswered(row, operations)) return false;
  for (const std::uint64_t mark : operations) {
    const auto found = state_.index.Find(mark & ~kUnreadMark);
    if (!found) return false;
    if (!*found) continue;  // an alias of before took its key away, or it is kept no longer
    state_.index.SetAnswered(**found, (mark & kUnreadMark) == 0);
  }
  return true;
}

bool LedgerReplay::ReplayEvent(const RowView& row) {
  EventFront front;
  if (!DecodeEventFront(row, front)) return false;
  if (const auto news = NewsOf(row)) {
    // What was idle for long when it was written is over, as it was then.
    const Millis age(std::max<std::int64_t>(0, state_.clock.WallMs() - news->wall_ms));
    const MonoTime at = state_.clock.Now() - std::min(age, 2 * Millis(limits::kFlowIdle));
    state_.flows.CloseIdle(at - limits::kFlowIdle, limits::kFlowsMax, limits::kFlowsClosedAtOnce);
    state_.flows.Apply(*news, at);
  }
  state_.claims.Replay(row, front);
  const auto previous = state_.index.keys().Find(front.key);
  if (!previous) return false;
  state_.index.Apply(front, row.head.seq, row.head.wall_ms, *previous ? &**previous : nullptr);
  if (front.phase == Phase::kDenied) {
    const auto [tool, caller] = MadeBy(row);
    state_.index.NoteNo(caller, tool, front.args_hash, front.operation);
  }
  return true;
}

void LedgerReplay::StartEpoch() {
  const std::uint64_t last = state_.log.head().seq;
  std::optional<std::int64_t> last_wall_ms;
  if (state_.log.Read(last, row_)) {
    if (const auto row = ParseRow(row_)) last_wall_ms = row->head.wall_ms;
  }
  state_.clock.BeginProcess(last + 1, last_wall_ms);
  rows_.AppendEpoch();
}

}  // namespace recourse
