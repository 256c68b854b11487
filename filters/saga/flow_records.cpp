#include "filters/saga/flow_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {

Task<std::optional<FlowState>> FlowRecords::Park(const FlowState& state, std::string reason) {
  co_return co_await Move(
      FlowMove::Of(state, FlowPhase::kNeedsHuman, FlowCause::kStuck, std::move(reason)));
}

Task<std::optional<FlowState>> FlowRecords::Move(FlowMove move) {
  auto moved = co_await parts_.ledger.MoveFlow(std::move(move), parts_.executor);
  if (!moved) co_return std::nullopt;
  Tell(*moved);
  co_return std::move(*moved);
}

void FlowRecords::Tell(const FlowState& state) {
  if (state.phase != FlowPhase::kUndone && state.phase != FlowPhase::kNeedsHuman) return;
  const auto undone =
      std::count_if(state.steps.begin(), state.steps.end(),
                    [](const FlowStep& step) { return step.phase == Phase::kCompensated; });
  const bool is_stopped = IsStopped(state);
  Log(is_stopped || state.phase == FlowPhase::kUndone ? LogLevel::kInfo : LogLevel::kError,
      is_stopped                          ? "a flow stopped unfinished"
      : state.phase == FlowPhase::kUndone ? "a flow was undone"
                                          : "a flow needs a human",
      {{"flow", state.id},
       {"number", PrintRowId(state.number)},
       {"caller", state.caller},
       {"undone", std::to_string(undone)},
       {"reason", state.reason}});
  if (parts_.tell) parts_.tell({state, static_cast<std::uint64_t>(undone)});
}

Task<std::optional<FlowState>> FlowRecords::Get(std::uint64_t number) {
  auto page = co_await parts_.ledger.Flows(number - 1, 1, parts_.executor);
  if (!page || page->empty() || page->front().number != number) co_return std::nullopt;
  co_return std::move(page->front());
}

Task<std::optional<Event>> FlowRecords::Latest(std::uint64_t operation) {
  auto event = co_await parts_.ledger.Join(operation, parts_.clock.Now(), parts_.executor);
  if (!event || !*event) co_return std::nullopt;
  co_return std::move(**event);
}

Task<std::optional<Event>> FlowRecords::Look(std::uint64_t number, std::uint64_t operation) {
  auto event = co_await parts_.ledger.Join(operation, parts_.clock.Now(), parts_.executor);
  FlowEntry* const entry = table_.Find(number);
  if (entry != nullptr && event) entry->unread_since.reset();
  if (entry != nullptr && !event && !entry->unread_since) {
    entry->unread_since = parts_.clock.Now();
  }
  if (!event || !*event) co_return std::nullopt;
  co_return std::move(**event);
}

bool FlowRecords::IsLostToReading(std::uint64_t number) {
  const FlowEntry* const entry = table_.Find(number);
  return entry != nullptr && entry->unread_since &&
         parts_.clock.Now() - *entry->unread_since >= limits::kFlowSettleFor;
}

std::string FlowRecords::UnreadReason(std::uint64_t operation) {
  return fmt::format(
      "step {} cannot be read: a row is damaged (`recourse ledger verify` says which), or its call "
      "was made anew under another trace while an earlier version ran; look whether its effect is "
      "still there, then close the flow",
      PrintRowId(operation));
}

}  // namespace recourse
