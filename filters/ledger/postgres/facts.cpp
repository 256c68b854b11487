#include "filters/ledger/postgres/facts.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/index/key_index.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, kQuotaKindCount> kPgQuotaDetails = {
    "the caller has as many writes in flight as its quota writes_in_flight allows",
    "the caller has begun as many operations within the hour as its quota operations_per_hour "
    "allows",
    "the ledger holds as much of the caller as its quota stored_bytes allows",
    "as many calls of the caller wait for a human as its quota pending_approvals allows"};

template <class Set>
void Join(const Set& from, Set& to) {
  to.insert(from.begin(), from.end());
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
  open_writes = open_writes || more.open_writes;
  claims = claims || more.claims;
}

void VerbFacts::Answer(Known& known, const std::vector<Subject>& needs) {
  for (const Subject& subject : needs) {
    std::visit(
        [&](const auto& asked) {
          if (auto fact = Find(asked)) known.Put(asked, std::move(*fact));
        },
        subject);
  }
}

void VerbFacts::Take(const Fetched& fetched) {
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
  take(fetched.versions.operations, wishes_.keys, fetched_.versions.operations);
  take(fetched.versions.intents, wishes_.intents, fetched_.versions.intents);
  take(fetched.versions.flows, wishes_.flows, fetched_.versions.flows);
  take(fetched.histories, wishes_.histories, fetched_.histories);
  take(fetched.rows, wishes_.rows, fetched_.rows);
  for (const Uuid& key : wishes_.keys) {
    const std::uint64_t last = fetched_.versions.operations[key].last_event;
    const auto row = fetched.rows.find(last);
    if (row != fetched.rows.end()) fetched_.rows.insert_or_assign(last, row->second);
  }
  if (wishes_.open_writes) fetched_.open = fetched.open.value_or(std::vector<std::uint64_t>());
  if (wishes_.claims) fetched_.claims = fetched.claims.value_or(std::vector<std::uint64_t>());
  wishes_ = Wishes();
}

const StoredOperation* VerbFacts::Operation(const Digest& key) {
  const Uuid uuid = AsUuid(key);
  auto& known = fetched_.versions.operations;
  if (const auto found = known.find(uuid); found != known.end()) return &found->second;
  if (guesses_) {
    has_guessed_ = true;
    return &known[uuid];
  }
  wishes_.keys.insert(uuid);
  return nullptr;
}

const StoredIntent* VerbFacts::Intent(const Digest& digest) {
  const Uuid uuid = AsUuid(digest);
  auto& known = fetched_.versions.intents;
  if (const auto found = known.find(uuid); found != known.end()) return &found->second;
  if (guesses_) {
    has_guessed_ = true;
    return &known[uuid];
  }
  wishes_.intents.insert(uuid);
  return nullptr;
}

const StoredFlow* VerbFacts::Flow(const Digest& key) {
  const Uuid uuid = AsUuid(key);
  auto& known = fetched_.versions.flows;
  if (const auto found = known.find(uuid); found != known.end()) return &found->second;
  if (guesses_) {
    has_guessed_ = true;
    return &known[uuid];
  }
  wishes_.flows.insert(uuid);
  return nullptr;
}

const StoredRow* VerbFacts::Row(std::uint64_t row) {
  const auto found = fetched_.rows.find(row);
  if (found != fetched_.rows.end()) return &found->second;
  wishes_.rows.insert(row);
  return nullptr;
}

VerbFacts::Maybe<std::optional<FoundOperation>> VerbFacts::FoundAt(const Digest& key,
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

VerbFacts::Maybe<std::optional<FoundOperation>> VerbFacts::Find(const KeyAt& asked) {
  const StoredOperation* const stored = Operation(asked.key);
  if (stored == nullptr) return std::nullopt;
  auto found = FoundAt(asked.key, *stored);
  // Only 16 bytes of the digest led here.
  if (found && *found && **found && !stored->is_alias && !stored->is_tombstone &&
      !stored->is_placeholder && (**found)->key != asked.key) {
    return std::unexpected(Unreadable(stored->last_event));
  }
  return found;
}

std::optional<VerbFacts::ByOperation> VerbFacts::OfOperation(std::uint64_t operation) {
  const auto known = fetched_.keys_of.find(operation);
  if (known == fetched_.keys_of.end()) {
    wishes_.operations.insert(operation);
    return std::nullopt;
  }
  if (!known->second) return ByOperation();
  const auto stored = fetched_.versions.operations.find(*known->second);
  if (stored == fetched_.versions.operations.end()) {
    wishes_.operations.insert(operation);
    return std::nullopt;
  }
  const bool is_it = stored->second.version != 0 && stored->second.operation == operation &&
                     !stored->second.is_alias && !stored->second.is_tombstone;
  return ByOperation{DigestOfUuid(*known->second), is_it ? &stored->second : nullptr};
}

std::optional<Result<std::optional<FoundOperation>>> VerbFacts::Found(std::uint64_t operation) {
  const auto by = OfOperation(operation);
  if (!by) return std::nullopt;
  if (by->stored == nullptr) return std::optional<FoundOperation>();
  return FoundAt(by->key, *by->stored);
}

VerbFacts::Maybe<std::optional<FoundOperation>> VerbFacts::Find(const OperationOf& asked) {
  return Found(asked.operation);
}

VerbFacts::Maybe<Event> VerbFacts::Decode(std::uint64_t row, AnswerPart part) {
  const StoredRow* const stored = Row(row);
  if (stored == nullptr) return std::nullopt;
  Result<Event> event(std::in_place);
  const auto view = ParseRow(stored->bytes);
  if (!view || !DecodeEvent(*view, part, local_.opener, *event)) {
    return std::unexpected(Unreadable(row));
  }
  return event;
}

VerbFacts::Maybe<std::optional<ApprovalState>> VerbFacts::Find(const ApprovalOf& asked) {
  const auto found = Found(asked.operation);
  if (!found) return std::nullopt;
  if (!*found) return std::unexpected(found->error());
  if (!**found) return std::optional<ApprovalState>();
  auto event = Decode((**found)->entry.last_event, AnswerPart::kLoad);
  if (!event) return std::nullopt;
  if (!*event) return std::unexpected(event->error());
  if ((*event)->is_locked) {
    return std::unexpected(
        Error(ErrorCode::kLedgerUnavailable,
              "the operation is sealed with a key that is not among the ledger's keys",
              Delivery::kNotSent));
  }
  const Millis left =
      (*event)->approval ? TimeLeft(*(*event)->approval, local_.WallMs()) : Millis::max();
  return std::optional(ApprovalState{***found, std::move(**event), left});
}

VerbFacts::Maybe<std::vector<ApprovalState>> VerbFacts::Find(const ApprovalsIn& asked) {
  if (!fetched_.claims) {
    wishes_.claims = true;
    return std::nullopt;
  }
  std::vector<ApprovalState> states;
  bool lacks = false;
  for (const std::uint64_t operation : *fetched_.claims) {
    const auto by = OfOperation(operation);
    if (by && (by->stored == nullptr || by->stored->flow != AsUuid(asked.flow) ||
               !IsClaim(by->stored->phase))) {
      continue;
    }
    auto state = Find(ApprovalOf{operation});
    lacks = lacks || !state;
    if (state && *state && **state) states.push_back(std::move(***state));
  }
  if (lacks) return std::nullopt;
  return states;
}

std::optional<Result<std::optional<FlowState>>> VerbFacts::State(const Digest& key) {
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

VerbFacts::Maybe<std::optional<FlowState>> VerbFacts::Find(const FlowNumbered& asked) {
  const StoredRow* const first = Row(asked.number);
  if (first == nullptr) return std::nullopt;
  const auto view = ParseRow(first->bytes);
  const auto news = view ? NewsOf(*view) : std::nullopt;
  if (!news) return std::optional<FlowState>();
  auto state = State(FlowKeyOf(news->caller, news->flow));
  if (state && *state && **state && (**state)->number != asked.number) {
    return std::optional<FlowState>();
  }
  return state;
}

VerbFacts::Maybe<FlowNamed::Fact> VerbFacts::Find(const FlowNamed& asked) {
  auto state = State(asked.key);
  if (!state) return std::nullopt;
  if (!*state) return std::unexpected(state->error());
  const StoredFlow& flow = *Flow(asked.key);
  return FlowNamed::Fact{std::move(**state), IsFenced(flow.phase) ? flow.number : 0};
}

VerbFacts::Maybe<Event> VerbFacts::Find(const EventAt& asked) {
  return Decode(asked.row, asked.part);
}

VerbFacts::Maybe<EventFront> VerbFacts::Find(const FrontOf& asked) {
  const StoredRow* const stored = Row(asked.row);
  if (stored == nullptr) return std::nullopt;
  EventFront front;
  const auto view = ParseRow(stored->bytes);
  if (!view || !DecodeEventFront(*view, front)) return std::unexpected(Unreadable(asked.row));
  front.flow_name = {};
  return front;
}

VerbFacts::Maybe<std::optional<std::uint64_t>> VerbFacts::Find(const IntentOf& asked) {
  const StoredIntent* const stored = Intent(asked.intent);
  if (stored == nullptr) return std::nullopt;
  return stored->version == 0 ? std::nullopt : std::optional(stored->row);
}

// Rows of different streams are compared by their places.
VerbFacts::Maybe<std::optional<std::uint64_t>> VerbFacts::Find(const MarkSince& asked) {
  const StoredIntent* const mark = Intent(asked.mark);
  if (mark == nullptr) return std::nullopt;
  if (mark->version == 0) return std::optional<std::uint64_t>();
  const StoredRow* const since = Row(asked.since);
  if (since == nullptr) return std::nullopt;
  return mark->place > since->place ? std::optional(mark->row) : std::nullopt;
}

VerbFacts::Maybe<bool> VerbFacts::Find(const RoomFor& /*asked*/) { return true; }

VerbFacts::Maybe<std::optional<std::uint32_t>> VerbFacts::Find(const GenerationOf& asked) {
  const StoredOperation* const base = Operation(asked.key);
  if (base == nullptr) return std::nullopt;
  return base->version == 0 ? std::nullopt : std::optional(base->newest_generation);
}

VerbFacts::Maybe<std::optional<Event>> VerbFacts::Find(const AnswerAt& asked) {
  auto event = Decode(asked.row, AnswerPart::kLoad);
  if (!event) return std::nullopt;
  if (!*event) return std::unexpected(event->error());
  return std::optional(std::move(**event));
}

VerbFacts::Maybe<bool> VerbFacts::Find(const OthersWait& asked) {
  return asked.wait->OthersWaitFor(asked.operation);
}

VerbFacts::Maybe<std::vector<OpenWritesAt::Open>> VerbFacts::Find(const OpenWritesAt& asked) {
  if (!fetched_.open) {
    wishes_.open_writes = true;
    return std::nullopt;
  }
  std::vector<OpenWritesAt::Open> writes;
  bool lacks = false;
  for (const std::uint64_t operation : *fetched_.open) {
    const auto found = Found(operation);
    if (!found) {
      lacks = true;
      continue;
    }
    if (!*found || !**found || !IsOpen((**found)->entry.phase)) continue;
    const KeyEntry& entry = (**found)->entry;
    const auto front = Find(FrontOf{entry.last_event});
    if (!front || !*front) continue;
    const auto marks = LeftBy((*front)->stands, (*front)->resource);
    const bool leaves =
        std::ranges::any_of(marks, [&](const Mark& mark) { return AsDigest(mark) == asked.mark; });
    const bool is_observed = (*front)->verdict != ObserveVerdict::kNone;
    if (!leaves || (is_observed && entry.phase == Phase::kUncertain)) continue;
    writes.push_back({operation, entry.last_event, entry.last_event, entry.phase});
  }
  if (lacks) return std::nullopt;
  return writes;
}

VerbFacts::Maybe<std::int64_t> VerbFacts::Find(const AgeOf& asked) {
  return std::max<std::int64_t>(0, local_.WallMs() - asked.written_ms);
}

// Whatever makes its age doubtful ends it.
VerbFacts::Maybe<bool> VerbFacts::Find(const KeyIsOver& asked) {
  const StoredRow* const first = Row(asked.operation);
  if (first == nullptr) return std::nullopt;
  const auto view = ParseRow(first->bytes);
  if (!view) return true;
  const std::int64_t age_ms = local_.WallMs() - view->head.wall_ms;
  return age_ms < 0 || age_ms > asked.lives.count();
}

VerbFacts::Maybe<FenceAt::Fact> VerbFacts::Find(const FenceAt& asked) {
  const StoredFlow* const flow = Flow(FlowKeyOf(asked.caller, asked.flow));
  if (flow == nullptr) return std::nullopt;
  const bool is_there = flow->version != 0 && !IsFinal(flow->phase);
  const bool is_too_long = is_there && flow->has_deadline &&
                           flow->steps >= static_cast<std::int64_t>(limits::kFlowStepsMax);
  return FenceAt::Fact{IsFenced(flow->phase) ? flow->number : 0, is_there, is_too_long, false};
}

VerbFacts::Maybe<std::optional<Millis>> VerbFacts::Find(const TryOf& asked) {
  return local_.refusals.Take(asked.key, asked.principal, local_.clock.Now());
}

VerbFacts::Maybe<int> VerbFacts::Find(const ReplaysOf& asked) {
  return local_.replays.Count(asked.operation);
}

VerbFacts::Maybe<std::optional<Error>> VerbFacts::Find(const AdmissionOf& asked) {
  if (local_.open >= limits::kOpenOperationsMax) {
    return std::optional(
        Error(ErrorCode::kOverloaded, "too many open operations", Delivery::kNotSent));
  }
  if (asked.is_undo) return std::optional<Error>();
  QuotaUsage::Use& use = local_.callers.Of(asked.caller);
  const Quota granted = asked.is_observed ? Quota() : asked.quota;
  if (const auto quota = local_.callers.Exceeded(granted, use, asked.is_new, local_.LivedMs())) {
    const auto index = static_cast<std::size_t>(*quota);
    if (!guesses_) ++local_.quota_refusals[index];
    return std::optional(
        Error(ErrorCode::kQuotaExceeded, kPgQuotaDetails[index], Delivery::kNotSent));
  }
  if (!asked.asks) return std::optional<Error>();
  if (!fetched_.claims) {
    wishes_.claims = true;
    return std::nullopt;
  }
  std::uint64_t waiting = 0;
  bool lacks = false;
  for (const std::uint64_t operation : *fetched_.claims) {
    const StoredRow* const first = Row(operation);
    lacks = lacks || first == nullptr;
    const auto view =
        first != nullptr ? ParseRow(first->bytes) : std::unexpected(std::string_view());
    if (view && MadeBy(*view).caller == asked.caller) ++waiting;
  }
  if (lacks) return std::nullopt;
  return RefusalOf(asked, waiting, fetched_.claims->size());
}

std::optional<Error> VerbFacts::RefusalOf(const AdmissionOf& asked, std::uint64_t waiting,
                                          std::size_t all) {
  if (!asked.can_be_asked) {
    return Error(ErrorCode::kRequestTooLarge,
                 "the call needs a human's approval and is too large to be kept for that",
                 Delivery::kNotSent);
  }
  const std::uint64_t granted =
      asked.quota.pending_approvals.value_or(limits::kPendingApprovalsPerCaller);
  if (waiting >= granted) {
    const auto index = static_cast<std::size_t>(QuotaKind::kPendingApprovals);
    if (!guesses_) ++local_.quota_refusals[index];
    return Error(ErrorCode::kQuotaExceeded, kPgQuotaDetails[index], Delivery::kNotSent);
  }
  if (all >= limits::kPendingApprovalsMax) {
    return Error(ErrorCode::kOverloaded, "too many calls wait for a human", Delivery::kNotSent);
  }
  return std::nullopt;
}

Millis TimeLeft(const ApprovalFacts& facts, std::int64_t wall_ms) {
  // Asked at a time that is still to come: nobody knows how long ago.
  if (wall_ms < facts.asked_ms) return Millis(0);
  return Millis(facts.expires_ms - (wall_ms - facts.asked_ms));
}

}  // namespace recourse
