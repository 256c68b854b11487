#include "filters/ledger/postgres/read_rows.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/index/key_index.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/rows/event_log.h"

namespace recourse {
namespace {

template <class Set>
void Join(const Set& from, Set& to) {
  to.insert(from.begin(), from.end());
}

bool IsOperation(const StoredOperation& stored, std::uint64_t operation) {
  return stored.version != 0 && stored.operation == operation && !stored.is_alias &&
         !stored.is_tombstone;
}

bool IsMark(const StoredIntent& row) { return row.place != 0; }
template <class Row>
bool IsMark(const Row& /*row*/) {
  return false;
}

bool BeginsStep(const StepUpdate& news) {
  return news.undoes == 0 && news.phase == Phase::kDispatching && !news.is_resend;
}

bool HasStep(const FlowState& state, std::uint64_t operation) {
  return std::ranges::find(state.steps, operation, &FlowStep::operation) != state.steps.end();
}

// The flow as its rows tell of it, from its first step on.
class FlowHistory {
 public:
  explicit FlowHistory(const StoredFlow& flow) : flow_(flow) {}

  void Take(const RowView& row) {
    FlowState moved;
    if (row.head.kind == RowKind::kFlow && DecodeFlow(row, moved)) {
      if (moved.number != flow_.number) return;
      // Whoever wrote it may not have known of what other streams had written just before.
      if (state_) KeepSteps(*state_, moved);
      CountTries(state_ && state_->phase == moved.phase ? &*state_ : nullptr, moved);
      state_ = std::move(moved);
    } else if (const auto news = NewsOf(row)) {
      Take(*news);
    }
  }
  std::optional<FlowState> state() && { return std::move(state_); }

 private:
  static void KeepSteps(const FlowState& state, FlowState& moved) {
    for (FlowStep& step : moved.steps) {
      const auto known = std::ranges::find(state.steps, step.operation, &FlowStep::operation);
      if (known == state.steps.end()) continue;
      const StepEnd end = step.end;
      step = *known;
      step.end = end;
    }
  }

  void Take(const StepUpdate& news) {
    if (!state_) {
      if (!BeginsStep(news)) return;
      state_.emplace();
      state_->number = flow_.number;
      state_->id = news.flow;
      state_->caller = news.caller;
      state_->policy_version = news.policy_version;
      state_->phase = FlowPhase::kOpen;
      state_->cause = FlowCause::kFirstStep;
      state_->began_ms = state_->changed_ms = news.wall_ms;
    }
    // The outcome of a step that an earlier flow of that name did not wait for.
    if (news.undoes == 0 && !BeginsStep(news) && !HasStep(*state_, news.operation)) return;
    TakeNews(*state_, news);
  }

  const StoredFlow& flow_;
  std::optional<FlowState> state_;
};

}  // namespace

void Wishes::Add(const Wishes& more) {
  Join(more.keys, keys);
  Join(more.intents, intents);
  Join(more.flows, flows);
  Join(more.histories, histories);
  Join(more.operations, operations);
  Join(more.rows, rows);
  Join(more.streams, streams);
  open_writes = open_writes || more.open_writes;
  claims = claims || more.claims;
}

// What was read first stays, as it is what is decided on: what another process has made of it since
// then is noticed when that is written. A mark alone is read again to see that it has moved.
void ReadRows::Take(const Fetched& fetched) {
  const auto take = [](const auto& from, const auto& wished, auto& to) {
    for (const auto& one : wished) {
      const auto found = from.find(one);
      if (found == from.end()) {
        to.try_emplace(one);
      } else {
        to.insert_or_assign(one, found->second);
      }
    }
  };
  for (const std::uint64_t operation : wishes_.operations) {
    const auto key = fetched.keys_of.find(operation);
    fetched_.keys_of[operation] = key == fetched.keys_of.end() ? std::nullopt : key->second;
    if (fetched_.keys_of[operation]) wishes_.keys.insert(*fetched_.keys_of[operation]);
  }
  const auto take_first = [](const auto& from, const auto& wished, auto& to) {
    for (const auto& one : wished) {
      const auto found = from.find(one);
      const auto [now, is_new] = to.try_emplace(one);
      if (found == from.end()) continue;
      if (is_new || IsMark(now->second) || IsMark(found->second)) now->second = found->second;
    }
  };
  take_first(fetched.versions.operations, wishes_.keys, fetched_.versions.operations);
  take_first(fetched.versions.intents, wishes_.intents, fetched_.versions.intents);
  take_first(fetched.versions.flows, wishes_.flows, fetched_.versions.flows);
  take(fetched.histories, wishes_.histories, fetched_.histories);
  take(fetched.rows, wishes_.rows, fetched_.rows);
  take(fetched.streams, wishes_.streams, fetched_.streams);
  for (const Uuid& key : wishes_.keys) {
    const std::uint64_t last = fetched_.versions.operations[key].last_event;
    const auto row = fetched.rows.find(last);
    if (row != fetched.rows.end()) fetched_.rows.insert_or_assign(last, row->second);
  }
  if (wishes_.open_writes) fetched_.open = fetched.open.value_or(std::vector<std::uint64_t>());
  if (wishes_.claims) fetched_.claims = fetched.claims.value_or(std::vector<std::uint64_t>());
  wishes_ = Wishes();
}

void ReadRows::Remember(const Uuid& key, const StoredOperation& operation, StoredRow row) {
  fetched_.versions.operations[key] = operation;
  fetched_.keys_of[operation.operation] = key;
  fetched_.rows[operation.last_event] = std::move(row);
  has_guessed_ = true;
}

template <class Row>
const Row* ReadRows::Look(const Digest& digest, std::map<Uuid, Row>& known,
                          std::set<Uuid>& wished) {
  const Uuid uuid = AsUuid(digest);
  if (const auto found = known.find(uuid); found != known.end()) return &found->second;
  if (guesses_) {
    has_guessed_ = true;
    return &known[uuid];
  }
  wished.insert(uuid);
  return nullptr;
}

const StoredOperation* ReadRows::Operation(const Digest& key) {
  return Look(key, fetched_.versions.operations, wishes_.keys);
}

const StoredIntent* ReadRows::Intent(const Digest& digest) {
  return Look(digest, fetched_.versions.intents, wishes_.intents);
}

const StoredFlow* ReadRows::Flow(const Digest& key) {
  return Look(key, fetched_.versions.flows, wishes_.flows);
}

const StoredRow* ReadRows::Row(std::uint64_t row) {
  const auto found = fetched_.rows.find(row);
  if (found != fetched_.rows.end()) return &found->second;
  wishes_.rows.insert(row);
  return nullptr;
}

const StreamSign* ReadRows::Stream(std::uint64_t stream) {
  const auto found = fetched_.streams.find(stream);
  if (found != fetched_.streams.end()) return &found->second;
  wishes_.streams.insert(stream);
  return nullptr;
}

// What was looked for behind the marks may have ended meanwhile, and left one: they are read again.
const std::vector<std::uint64_t>* ReadRows::OpenWrites() {
  if (fetched_.open) return &*fetched_.open;
  wishes_.open_writes = true;
  before_open_ = fetched_.versions.intents;
  for (const auto& [intent, row] : before_open_) wishes_.intents.insert(intent);
  return nullptr;
}

bool ReadRows::HasMoved(const Digest& mark, const StoredIntent& now) const {
  const auto before = before_open_.find(AsUuid(mark));
  return before != before_open_.end() && now.place > before->second.place;
}

const std::vector<std::uint64_t>* ReadRows::Claims() {
  if (!fetched_.claims) wishes_.claims = true;
  return fetched_.claims ? &*fetched_.claims : nullptr;
}

ReadRows::Maybe<std::optional<FoundOperation>> ReadRows::FoundAt(const Digest& key,
                                                                 const StoredOperation& stored) {
  if (stored.version == 0) return std::optional<FoundOperation>();
  FoundOperation found{key, {}};
  KeyEntry& entry = found.entry;
  entry.operation = stored.operation;
  entry.last_event = stored.last_event;
  entry.last_wall_ms = stored.wall_ms;
  entry.generation = stored.generation;
  entry.newest_generation = stored.newest_generation;
  entry.attempt = stored.attempt;
  entry.phase = stored.phase;
  entry.cause = stored.cause;
  entry.is_answered = stored.is_answered;
  entry.is_tombstone = stored.is_tombstone;
  entry.is_alias = stored.is_alias;
  if (stored.is_placeholder) {
    entry = PlaceholderOf(stored.last_event, stored.wall_ms, stored.newest_generation);
    return std::optional(found);
  }
  if (stored.is_alias || stored.is_tombstone) return std::optional(found);
  const StoredRow* const row = Row(stored.last_event);
  if (row == nullptr) return std::nullopt;
  const auto view = ParseRow(row->bytes);
  EventFront front;
  if (!view || !DecodeEventFront(*view, front) || AsUuid(front.key) != AsUuid(key)) {
    return std::unexpected(Unreadable(stored.last_event));
  }
  found.key = front.key;
  found.may_hold_more = front.is_extended;
  entry.args_hash = front.args_hash;
  entry.principal = front.principal;
  return std::optional(found);
}

std::optional<ReadRows::ByOperation> ReadRows::OfOperation(std::uint64_t operation) {
  const auto known = fetched_.keys_of.find(operation);
  if (known == fetched_.keys_of.end()) {
    // Mostly few are known, and only before those of a list are asked for by their numbers.
    for (const auto& [key, stored] : fetched_.versions.operations) {
      if (!IsOperation(stored, operation)) continue;
      fetched_.keys_of[operation] = key;
      return ByOperation{DigestOfUuid(key), &stored};
    }
    wishes_.operations.insert(operation);
    return std::nullopt;
  }
  if (!known->second) return ByOperation();
  const auto stored = fetched_.versions.operations.find(*known->second);
  if (stored == fetched_.versions.operations.end()) {
    wishes_.operations.insert(operation);
    return std::nullopt;
  }
  const bool is_it = IsOperation(stored->second, operation);
  return ByOperation{DigestOfUuid(*known->second), is_it ? &stored->second : nullptr};
}

std::optional<Result<std::optional<FoundOperation>>> ReadRows::Found(std::uint64_t operation) {
  const auto by = OfOperation(operation);
  if (!by) return std::nullopt;
  if (by->stored == nullptr) return std::optional<FoundOperation>();
  return FoundAt(by->key, *by->stored);
}

ReadRows::Maybe<Event> ReadRows::Decode(std::uint64_t row, AnswerPart part) {
  const StoredRow* const stored = Row(row);
  if (stored == nullptr) return std::nullopt;
  Result<Event> event(std::in_place);
  const auto view = ParseRow(stored->bytes);
  if (!view || !DecodeEvent(*view, part, opener_, *event)) {
    return std::unexpected(Unreadable(row));
  }
  return event;
}

std::optional<Result<std::optional<FlowState>>> ReadRows::State(const Digest& key) {
  const StoredFlow* const flow = Flow(key);
  if (flow == nullptr) return std::nullopt;
  if (flow->version == 0 || flow->phase == FlowPhase::kNone || IsFinal(flow->phase)) {
    return std::optional<FlowState>();
  }
  const auto rows = fetched_.histories.find(AsUuid(key));
  if (rows == fetched_.histories.end()) {
    wishes_.histories.insert(AsUuid(key));
    return std::nullopt;
  }
  FlowHistory history(*flow);
  for (const StoredRow& row : rows->second) {
    if (row.place < flow->opened) continue;
    const auto view = ParseRow(row.bytes);
    if (!view) return std::unexpected(Unreadable());
    history.Take(*view);
  }
  return std::move(history).state();
}

}  // namespace recourse
