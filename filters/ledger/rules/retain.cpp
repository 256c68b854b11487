#include "filters/ledger/rules/retain.h"

#include <utility>

namespace recourse {
namespace {

bool StandsAt(const PlaceOfKey& place, std::uint64_t row) {
  return place && place->last_row == row;
}

// Perhaps only this row said that there are later generations.
void KeepGenerations(const Digest& base_key, const PlaceOfKey& base, std::uint64_t row,
                     RetainPlan& plan) {
  if (!StandsAt(base, row)) return;
  plan.tombstones.push_back({.key = base_key, .newest_generation = base->newest_generation});
}

// The row holds its operation's state.
std::variant<EventNeed, RetainPlan> RetainLast(const OldEvent& event) {
  const EventFront& front = event.front;
  if (!event.is_held) return EventNeed::kHeld;
  std::uint32_t newest_generation = (*event.own)->newest_generation;
  if (front.generation > 0) {
    newest_generation = *event.base ? (*event.base)->newest_generation : front.generation;
  }
  const RetentionFate fate =
      *event.is_held ? RetentionFate::kCarry : FateOf(front, newest_generation);
  RetainPlan plan;
  if (fate == RetentionFate::kCarry) {
    plan.carries = true;
    plan.keeps_flow = true;
    plan.is_moved = front.operation == event.row;
    return plan;
  }
  if (!event.is_ended) return EventNeed::kEnded;
  plan.ends = true;
  const bool is_alone = front.generation == 0 && newest_generation == 0;
  if (fate == RetentionFate::kForget || (*event.is_ended && is_alone)) {
    plan.forgotten.push_back(front.key);
  } else {
    plan.tombstones.push_back({.key = front.key,
                               .operation = front.operation,
                               .generation = front.generation,
                               .newest_generation = (*event.own)->newest_generation,
                               .phase = *event.is_ended ? Phase::kCompensated : front.phase});
  }
  return plan;
}

std::variant<EventNeed, RetainPlan> RetainOwn(const OldEvent& event) {
  if (StandsAt(*event.own, event.row)) return RetainLast(event);
  RetainPlan plan;
  if (!*event.own || event.front.operation != event.row) return plan;
  // A later row says what is true now, but this one gave the operation its name, and began it in
  // its flow.
  if (!event.is_kept) return EventNeed::kKept;
  plan.keeps_flow = true;
  plan.is_moved = *event.is_kept;
  return plan;
}

}  // namespace

std::variant<EventNeed, RetainPlan> Retain(const OldEvent& event) {
  if (!event.own) return EventNeed::kOwn;
  if (event.front.generation > 0 && !event.base) return EventNeed::kBase;
  auto judged = RetainOwn(event);
  auto* const plan = std::get_if<RetainPlan>(&judged);
  if (plan == nullptr || event.front.generation == 0) return judged;
  // A later attempt by way of another key has the generation of that key, and the key of its
  // operation: what becomes of the one is said of the other.
  const bool is_own = event.front.base_key == event.front.key;
  if (is_own && (plan->carries || !plan->forgotten.empty())) return judged;
  KeepGenerations(event.front.base_key, *event.base, event.row, *plan);
  return judged;
}

RetainPlan RetainAlias(const Alias& alias, std::uint64_t row, const PlaceOfKey& own,
                       const PlaceOfKey& base, bool has_target) {
  RetainPlan plan;
  if (StandsAt(own, row)) {
    const Digest key = KeyOfGeneration(alias.key, alias.generation);
    const bool is_newest = !base || base->newest_generation <= alias.generation;
    if (has_target && is_newest) {
      plan.carries = true;
    } else if (alias.generation > 0 && !is_newest) {
      plan.forgotten.push_back(key);
    } else {
      plan.tombstones.push_back({.key = key,
                                 .operation = alias.operation,
                                 .generation = alias.generation,
                                 .newest_generation = own->newest_generation});
    }
  }
  if (alias.generation > 0) KeepGenerations(alias.key, base, row, plan);
  return plan;
}

TombstoneFate RetainTombstone(const Tombstone& tombstone, std::uint64_t row, const PlaceOfKey& own,
                              Later later, std::int64_t lived_ms, std::int64_t tombstones_ms) {
  if (!StandsAt(own, row)) return TombstoneFate::kIsReplaced;  // its key is a new operation's
  return IsOver(tombstone, later, lived_ms, tombstones_ms) ? TombstoneFate::kIsOver
                                                           : TombstoneFate::kMovesOn;
}

}  // namespace recourse
