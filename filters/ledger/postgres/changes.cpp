#include "filters/ledger/postgres/changes.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "filters/ledger/rows/earlier_no.h"

namespace recourse {
namespace {

bool DispatchesStep(const Event& event) {
  return event.undoes == 0 && Dispatches(event) && event.cause != Cause::kResend;
}

template <class Map>
bool HaveCommon(const Map& written, const auto& read) {
  return std::ranges::any_of(written, [&](const auto& one) { return read.contains(one.first); });
}

class ChangesMaker {
 public:
  ChangesMaker(const PlanNumbers& numbers, ReadRows& rows)
      : stream_(numbers.stream), waiter_(numbers.has_waiter ? numbers.stream : 0), rows_(rows) {}

  // False: more has to be known.
  bool Take(const RowWrite& write) {
    return std::visit([this](const auto& row) { return Take(row); }, write);
  }
  Changes changes() && { return std::move(changes_); }

 private:
  bool Take(const EventWrite& write) {
    const Event& event = write.event;
    const StoredOperation* const before = OperationNow(event.key);
    if (before == nullptr) return false;
    const StoredOperation old = *before;
    const bool follows = old.version != 0 && !old.is_placeholder && !old.is_alias;
    StoredOperation now;
    now.version = old.version;
    now.generation = event.generation;
    now.newest_generation = old.newest_generation;
    now.is_answered = follows && old.is_answered && event.phase != Phase::kDispatching;
    now.operation = event.operation;
    now.last_event = event.id;
    now.phase = event.phase;
    now.cause = event.cause;
    now.attempt = event.attempt;
    now.sender = Dispatches(event) ? stream_ : old.sender;
    now.waiter = Dispatches(event) ? waiter_ : old.waiter;
    now.before = follows && IsOpen(old.phase) ? old.before : 0;
    now.wall_ms = event.wall_ms;
    if (event.is_step || event.undoes != 0) now.flow = AsUuid(FlowKeyOf(event.caller, event.flow));
    if (!TakeIntent(event, now)) return false;
    if (event.generation > 0 &&
        !TakeGeneration(event.base_key, event.generation, event.id, event.wall_ms)) {
      return false;
    }
    if (!TakeStep(event)) return false;
    TakeMarks(event, follows ? &old : nullptr);
    TakeWork(event, follows ? old.phase : Phase::kNone);
    changes_.operations[AsUuid(event.key)] = now;
    changes_.log.push_back({.id = event.id,
                            .tool = event.tool,
                            .caller = event.caller,
                            .phase = event.phase,
                            .key = event.key,
                            .operation = event.operation,
                            .previous = follows ? old.last_event : 0});
    return true;
  }

  bool Take(const FlowWrite& write) {
    const FlowState& state = write.state;
    const Digest key = FlowKeyOf(state.caller, state.id);
    const StoredFlow* const before = FlowNow(key);
    if (before == nullptr) return false;
    StoredFlow now = *before;
    const std::uint64_t previous = now.row;
    if (now.version == 0 || now.number != state.number) {
      const StoredRow* const first = rows_.Row(state.number);
      if (first == nullptr) return false;
      now.opened = first->place;
      now.steps = static_cast<std::int64_t>(state.steps.size());
    }
    now.number = state.number;
    now.phase = state.phase;
    now.cause = state.cause;
    now.has_deadline = state.has_deadline;
    now.row = state.row;
    changes_.flows[AsUuid(key)] = now;
    changes_.work.push_back({WorkKind::kFlow, state.number, IsFinal(state.phase)});
    changes_.log.push_back({.id = state.row, .caller = state.caller, .previous = previous});
    return true;
  }

  bool Take(const AliasWrite& write) {
    const Alias& alias = write.alias;
    const Digest key = KeyOfGeneration(alias.key, alias.generation);
    const StoredOperation* const before = OperationNow(key);
    if (before == nullptr) return false;
    StoredOperation now;
    now.version = before->version;
    now.generation = alias.generation;
    now.newest_generation = before->newest_generation;
    now.is_alias = true;
    now.operation = alias.operation;
    now.last_event = alias_id_;
    now.wall_ms = alias_wall_ms_;
    changes_.operations[AsUuid(key)] = now;
    changes_.log.push_back({.id = alias_id_});
    return alias.generation == 0 ||
           TakeGeneration(alias.key, alias.generation, alias_id_, alias_wall_ms_);
  }

  const StoredOperation* OperationNow(const Digest& key) {
    const auto changed = changes_.operations.find(AsUuid(key));
    return changed != changes_.operations.end() ? &changed->second : rows_.Operation(key);
  }
  const StoredFlow* FlowNow(const Digest& key) {
    const auto changed = changes_.flows.find(AsUuid(key));
    return changed != changes_.flows.end() ? &changed->second : rows_.Flow(key);
  }
  const StoredIntent* IntentNow(const Digest& digest) {
    const auto changed = changes_.intents.find(AsUuid(digest));
    return changed != changes_.intents.end() ? &changed->second : rows_.Intent(digest);
  }
  // It was read before.
  void PutIntent(const Digest& digest, std::uint64_t operation) {
    StoredIntent now = *IntentNow(digest);
    now.row = operation;
    changes_.intents[AsUuid(digest)] = now;
  }

  bool TakeGeneration(const Digest& base_key, std::uint32_t generation, std::uint64_t row,
                      std::int64_t wall_ms) {
    const StoredOperation* const base = OperationNow(base_key);
    if (base == nullptr) return false;
    StoredOperation now = *base;
    if (now.version == 0 && !changes_.operations.contains(AsUuid(base_key))) {
      now.is_placeholder = true;
      now.last_event = row;
      now.wall_ms = wall_ms;
    }
    now.newest_generation = std::max(now.newest_generation, generation);
    changes_.operations[AsUuid(base_key)] = now;
    return true;
  }

  // The operation that was sent, or asked about, last stands for the intent. One that had no effect
  // gives that back.
  bool TakeIntent(const Event& event, StoredOperation& now) {
    if (event.intent == Digest{}) return true;
    const Digest intent = KeyOfIntent(event.intent, event.principal);
    if (event.phase != Phase::kDispatching && event.phase != Phase::kClaimed) {
      const bool may_go_on =
          IsOpen(event.phase) || MayHaveEffect(event.phase) || event.cause == Cause::kAsksInput;
      if (now.before == 0 || may_go_on) return true;
      const StoredIntent* const stored = IntentNow(intent);
      if (stored == nullptr) return false;
      if (stored->row == event.operation) PutIntent(intent, now.before);
      return true;
    }
    const StoredIntent* const stored = IntentNow(intent);
    if (stored == nullptr) return false;
    const std::uint64_t last = stored->version != 0 ? stored->row : 0;
    if (last != 0 && last != event.operation) {
      if (!LinkIntent(intent, event.operation, last)) return false;
      now.before = last;
    }
    PutIntent(intent, event.operation);
    return true;
  }

  // nullopt: more has to be known; 0: none.
  std::optional<std::uint64_t> BeforeInIntent(const Digest& intent, std::uint64_t operation) {
    const StoredIntent* const before = IntentNow(KeyOfBefore(intent, operation));
    if (before == nullptr) return std::nullopt;
    return before->version != 0 || before->row != 0 ? before->row : 0;
  }

  // What was sent last stands before those of its intent that are not over.
  bool LinkIntent(const Digest& intent, std::uint64_t operation, std::uint64_t last) {
    const auto own = BeforeInIntent(intent, operation);
    if (!own) return false;
    std::uint64_t behind = last;
    for (std::uint32_t look = 0; behind != 0 && look < kEqualCallsLooked; ++look) {
      const auto before = BeforeInIntent(intent, behind);
      if (!before) return false;
      if (*before == operation) {  // it is sent again, and leaves its place
        PutIntent(KeyOfBefore(intent, behind), *own);
        break;
      }
      behind = *before;
    }
    while (last != 0) {
      const auto found = rows_.Found(last);
      if (!found) return false;
      if (!*found || (**found && !IsOver((**found)->entry))) break;
      const auto before = BeforeInIntent(intent, last);
      if (!before) return false;
      last = *before;
    }
    if (last != 0 || *own != 0) PutIntent(KeyOfBefore(intent, operation), last);
    return true;
  }

  void TakeMarks(const Event& event, const StoredOperation* old) {
    if (event.phase == Phase::kDenied) {
      const Digest same = KeyOfNo(event.caller, event.tool, event.args_hash);
      changes_.marks[AsUuid(same)] = event.operation;
      changes_.marks[AsUuid(KeyOfNo(event.caller, event.tool))] = event.operation;
    }
    const bool is_new = old == nullptr || !IsExecuted(old->phase);
    if (event.stands.kind == WriteKind::kNone || !IsExecuted(event.phase) || !is_new) return;
    for (const Mark& mark : LeftBy(event.stands, event.resource)) {
      changes_.marks[AsUuid(AsDigest(mark))] = event.id;
    }
  }

  // What observe mode never learned is never settled.
  void TakeWork(const Event& event, Phase old) {
    const bool is_observed = event.verdict != ObserveVerdict::kNone;
    if (event.phase == Phase::kUncertain && !is_observed) {
      changes_.work.push_back({WorkKind::kSettle, event.operation, false});
    } else if (old == Phase::kUncertain) {
      changes_.work.push_back({WorkKind::kSettle, event.operation, true});
    }
    if (IsClaim(event.phase)) {
      changes_.work.push_back({WorkKind::kApproval, event.operation, false});
    } else if (IsClaim(old)) {
      changes_.work.push_back({WorkKind::kApproval, event.operation, true});
    }
  }

  bool TakeStep(const Event& event) {
    if (!event.is_step || event.verdict != ObserveVerdict::kNone || !DispatchesStep(event))
      return true;
    const Digest key = FlowKeyOf(event.caller, event.flow);
    const StoredFlow* const flow = FlowNow(key);
    if (flow == nullptr) return false;
    if (flow->version != 0 && !IsFinal(flow->phase)) {
      changes_.steps[AsUuid(key)] += 1;
      if (event.flow_has_deadline && !flow->has_deadline) {
        StoredFlow now = *flow;
        now.has_deadline = true;
        changes_.flows[AsUuid(key)] = now;
        changes_.work.push_back({WorkKind::kFlow, flow->number, false});
      }
      return true;
    }
    StoredFlow now;
    now.version = flow->version;
    now.number = event.id;
    now.phase = FlowPhase::kOpen;
    now.cause = FlowCause::kFirstStep;
    now.steps = 1;
    now.has_deadline = event.flow_has_deadline;
    now.row = 0;
    changes_.flows[AsUuid(key)] = now;
    changes_.opened[AsUuid(key)] = event.id;
    if (event.flow_has_deadline) changes_.work.push_back({WorkKind::kFlow, now.number, false});
    return true;
  }

 public:
  // Of the alias that is taken next.
  void set_alias(std::uint64_t id, std::int64_t wall_ms) {
    alias_id_ = id;
    alias_wall_ms_ = wall_ms;
  }

 private:
  const std::uint64_t stream_, waiter_;
  ReadRows& rows_;
  Changes changes_;
  std::uint64_t alias_id_ = 0;
  std::int64_t alias_wall_ms_ = 0;
};

}  // namespace

void BatchWrites::Add(const Changes& changes) {
  for (const auto& [key, row] : changes.operations) operations_.insert(key);
  for (const auto& [intent, row] : changes.intents) intents_.insert(intent);
  for (const auto& [mark, row] : changes.marks) intents_.insert(mark);
  for (const auto& [flow, row] : changes.flows) flows_.insert(flow);
}

bool BatchWrites::Meet(const Versions& read) const {
  return HaveCommon(read.operations, operations_) || HaveCommon(read.intents, intents_) ||
         HaveCommon(read.flows, flows_);
}

std::optional<Changes> ChangesOf(const Plan& plan, const PlanNumbers& numbers, ReadRows& rows) {
  ChangesMaker maker(numbers, rows);
  std::uint64_t id = numbers.first;
  bool has_all = true;
  for (const RowWrite& write : plan.writes) {
    maker.set_alias(id++, numbers.wall_ms);
    has_all = maker.Take(write) && has_all;
  }
  if (!has_all) return std::nullopt;
  return std::move(maker).changes();
}

}  // namespace recourse
