#include "filters/ledger/postgres/facts.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/index/key_index.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rules/clock_jumps.h"
#include "proxy/base/lease_limits.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::array<std::string_view, kQuotaKindCount> kPgQuotaDetails = {
    "the caller has as many writes in flight as its quota writes_in_flight allows",
    "the caller has begun as many operations within the hour as its quota operations_per_hour "
    "allows",
    "the ledger holds as much of the caller as its quota stored_bytes allows",
    "as many calls of the caller wait for a human as its quota pending_approvals allows"};

// How often it is asked for what of it retention has removed.
constexpr Millis kStoredLookedEvery{1'000};

}  // namespace

void PgRefusals::Tell(const PgFailure& why) {
  if (told_ == why.text) return;
  Log(LogLevel::kError,
      "the ledger's database refuses a batch; calls whose rows it refuses are not sent, and "
      "outcomes are kept, until it takes them",
      {{"sqlstate", why.sqlstate},
       {"reason", why.text},
       {"do", "see whether it is read-only, full, or has taken a right of this role"}});
  told_ = why.text;
}

void PgRefusals::End(Of what) {
  if (by_.erase(what) == 0 || !by_.empty()) return;
  Log(LogLevel::kInfo, "the ledger's database takes again what it refused");
  told_.clear();
}

std::string PgRefusals::Why() const {
  for (const auto& [what, why] : by_) {
    if (what != Of::kOther) return why;
  }
  return {};
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

VerbFacts::Maybe<std::optional<FoundOperation>> VerbFacts::Find(const KeyAt& asked) {
  const StoredOperation* const stored = rows_.Operation(asked.key);
  if (stored == nullptr) return std::nullopt;
  auto found = rows_.FoundAt(asked.key, *stored);
  // Only 16 bytes of the digest led here.
  if (found && *found && **found && !stored->is_alias && !stored->is_tombstone &&
      !stored->is_placeholder && (**found)->key != asked.key) {
    return std::unexpected(Unreadable(stored->last_event));
  }
  return found;
}

VerbFacts::Maybe<std::optional<FoundOperation>> VerbFacts::Find(const OperationOf& asked) {
  return rows_.Found(asked.operation);
}

VerbFacts::Maybe<std::optional<ApprovalState>> VerbFacts::Find(const ApprovalOf& asked) {
  const auto found = rows_.Found(asked.operation);
  if (!found) return std::nullopt;
  if (!*found) return std::unexpected(found->error());
  if (!**found) return std::optional<ApprovalState>();
  auto event = rows_.Decode((**found)->entry.last_event, AnswerPart::kLoad);
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
  const std::vector<std::uint64_t>* const claims = rows_.Claims();
  if (claims == nullptr) return std::nullopt;
  std::vector<ApprovalState> states;
  bool lacks = false;
  for (const std::uint64_t operation : *claims) {
    const auto by = rows_.OfOperation(operation);
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

VerbFacts::Maybe<std::optional<FlowState>> VerbFacts::Find(const FlowNumbered& asked) {
  const StoredRow* const first = rows_.Row(asked.number);
  if (first == nullptr) return std::nullopt;
  const auto view = ParseRow(first->bytes);
  const auto news = view ? NewsOf(*view) : std::nullopt;
  if (!news) return std::optional<FlowState>();
  auto state = rows_.State(FlowKeyOf(news->caller, news->flow));
  if (state && *state && **state && (**state)->number != asked.number) {
    return std::optional<FlowState>();
  }
  return state;
}

VerbFacts::Maybe<FlowNamed::Fact> VerbFacts::Find(const FlowNamed& asked) {
  auto state = rows_.State(asked.key);
  if (!state) return std::nullopt;
  if (!*state) return std::unexpected(state->error());
  const StoredFlow& flow = *rows_.Flow(asked.key);
  return FlowNamed::Fact{std::move(**state), IsFenced(flow.phase) ? flow.number : 0};
}

VerbFacts::Maybe<Event> VerbFacts::Find(const EventAt& asked) {
  return rows_.Decode(asked.row, asked.part);
}

VerbFacts::Maybe<EventFront> VerbFacts::Find(const FrontOf& asked) {
  const StoredRow* const stored = rows_.Row(asked.row);
  if (stored == nullptr) return std::nullopt;
  EventFront front;
  const auto view = ParseRow(stored->bytes);
  if (!view || !DecodeEventFront(*view, front)) return std::unexpected(Unreadable(asked.row));
  front.flow_name = {};
  return front;
}

VerbFacts::Maybe<std::optional<std::uint64_t>> VerbFacts::Find(const IntentOf& asked) {
  const StoredIntent* const stored = rows_.Intent(asked.intent);
  if (stored == nullptr) return std::nullopt;
  return stored->version == 0 ? std::nullopt : std::optional(stored->row);
}

// Rows of different streams are compared by their places.
VerbFacts::Maybe<std::optional<std::uint64_t>> VerbFacts::Find(const MarkSince& asked) {
  const StoredIntent* const mark = rows_.Intent(asked.mark);
  if (mark == nullptr) return std::nullopt;
  if (mark->version == 0) return std::optional<std::uint64_t>();
  const StoredRow* const since = rows_.Row(asked.since);
  if (since == nullptr) return std::nullopt;
  return mark->place > since->place ? std::optional(mark->row) : std::nullopt;
}

VerbFacts::Maybe<bool> VerbFacts::Find(const RoomFor& /*asked*/) { return true; }

VerbFacts::Maybe<std::optional<std::uint32_t>> VerbFacts::Find(const GenerationOf& asked) {
  const StoredOperation* const base = rows_.Operation(asked.key);
  if (base == nullptr) return std::nullopt;
  return base->version == 0 ? std::nullopt : std::optional(base->newest_generation);
}

VerbFacts::Maybe<AnswerAt::Fact> VerbFacts::Find(const AnswerAt& asked) {
  auto event = rows_.Decode(asked.row, AnswerPart::kLoad);
  if (!event) return std::nullopt;
  if (!*event) return std::unexpected(event->error());
  return std::make_unique<Event>(std::move(**event));
}

VerbFacts::Maybe<bool> VerbFacts::Find(const OthersWait& asked) {
  if (asked.wait->OthersWaitFor(asked.operation)) return true;
  const auto by = rows_.OfOperation(asked.operation);
  if (!by) return std::nullopt;
  const std::uint64_t waiter = by->stored != nullptr ? by->stored->waiter : 0;
  if (waiter == 0 || waiter == local_.stream || elsewhere_ == nullptr) return false;
  const StreamSign* const stream = rows_.Stream(waiter);
  if (stream == nullptr) return std::nullopt;
  const MonoTime now = local_.clock.Now();
  using Says = ClientsElsewhere::Says;
  switch (elsewhere_->Ask(waiter, *stream, now)) {
    case Says::kLater:
      later_ = now + limits::kClientsLookedEvery;
      return std::nullopt;
    case Says::kNow:
      later_ = now;
      return std::nullopt;
    case Says::kWaits:
      return true;
    case Says::kIsGone:
      return false;
    case Says::kUnsure:
      break;
  }
  return std::unexpected(Error(ErrorCode::kInProgress,
                               "an equal call was made at another pod, which does not say whether "
                               "the client of that one still waits",
                               Delivery::kUncertain));
}

VerbFacts::Maybe<std::vector<OpenWritesAt::Open>> VerbFacts::Find(const OpenWritesAt& asked) {
  const StoredRow* const since = rows_.Row(asked.since);
  const StoredIntent* const left = rows_.Intent(asked.mark);
  const std::vector<std::uint64_t>* const open = rows_.OpenWrites();
  if (open == nullptr) return std::nullopt;
  std::vector<OpenWritesAt::Open> writes;
  bool lacks = since == nullptr || left == nullptr;
  // What has left it had ended before it could be found open.
  if (!lacks && rows_.HasMoved(asked.mark, *left)) writes.push_back({0, left->row});
  for (const std::uint64_t operation : *open) {
    const auto found = rows_.Found(operation);
    if (!found) {
      lacks = true;
      continue;
    }
    if (!*found || !**found) continue;
    const KeyEntry& entry = (**found)->entry;
    // Executed by now, it was open when the mark was read, which lacks it.
    if (!IsOpen(entry.phase) && !IsExecuted(entry.phase)) continue;
    const auto front = Find(FrontOf{entry.last_event});
    if (!front || !*front) continue;
    const auto marks = LeftBy((*front)->stands, (*front)->resource);
    const bool leaves =
        std::ranges::any_of(marks, [&](const Mark& mark) { return AsDigest(mark) == asked.mark; });
    const bool is_observed = (*front)->verdict != ObserveVerdict::kNone;
    if (!leaves || (is_observed && entry.phase == Phase::kUncertain)) continue;
    const StoredRow* const told = rows_.Row(entry.last_event);
    if (told == nullptr || since == nullptr) {
      lacks = true;
      continue;
    }
    if (entry.phase != Phase::kDispatching && told->place <= since->place) continue;
    writes.push_back({operation, entry.last_event});
  }
  if (lacks) return std::nullopt;
  return writes;
}

VerbFacts::Maybe<std::int64_t> VerbFacts::Find(const AgeOf& asked) {
  return std::max<std::int64_t>(0, local_.WallMs() - asked.written_ms);
}

// Whatever makes its age doubtful ends it.
VerbFacts::Maybe<bool> VerbFacts::Find(const KeyIsOver& asked) {
  if (local_.is_restored) return true;
  const StoredRow* const first = rows_.Row(asked.operation);
  if (first == nullptr) return std::nullopt;
  const auto view = ParseRow(first->bytes);
  if (!view || first->place <= local_.went_back_place) return true;
  if (view->head.wall_ms <= local_.accepted_ms) return true;
  const auto now = rows_.OfOperation(asked.operation);
  if (!now) return std::nullopt;
  // Pods agree about the time within that.
  const std::int64_t latest_ms = local_.WallMs() + ClockJumps::kNoticedMs;
  if (now->stored == nullptr) return true;
  if (std::max(now->stored->wall_ms, view->head.wall_ms) > latest_ms) return true;
  return local_.WallMs() - view->head.wall_ms > asked.lives.count();
}

VerbFacts::Maybe<FenceAt::Fact> VerbFacts::Find(const FenceAt& asked) {
  const StoredFlow* const flow = rows_.Flow(asked.flow);
  if (flow == nullptr) return std::nullopt;
  const bool is_there = flow->version != 0 && !IsFinal(flow->phase);
  const bool is_too_long = is_there && flow->has_deadline &&
                           flow->steps >= static_cast<std::int64_t>(limits::kFlowStepsMax);
  return FenceAt::Fact{IsFenced(flow->phase) ? flow->number : 0, is_there, is_too_long, false};
}

VerbFacts::Maybe<std::optional<Millis>> VerbFacts::Find(const TryOf& asked) {
  return local_.pace.Take(asked.key, asked.principal, local_.clock.Now());
}

VerbFacts::Maybe<int> VerbFacts::Find(const ReplaysOf& asked) {
  return local_.replays.Count(asked.operation);
}

VerbFacts::Maybe<std::optional<Error>> VerbFacts::Find(const AdmissionOf& asked) {
  if (local_.open >= limits::kOpenOperationsMax) {
    return std::optional(
        Error(ErrorCode::kOverloaded, "too many open operations", Delivery::kNotSent));
  }
  // Observe mode refuses nothing. An undo waits too: it may have been sent after the backup.
  if (!asked.is_observed && local_.is_restored) {
    return std::optional(Error(ErrorCode::kLedgerRestored,
                               "the ledger's database was put back to an older state, and no "
                               "operator has accepted that what was done after it is not "
                               "remembered",
                               Delivery::kNotSent));
  }
  if (asked.is_undo) return std::optional<Error>();
  const auto exceeded = Exceeded(asked);
  if (!exceeded) return std::nullopt;
  if (const auto quota = *exceeded) {
    const auto index = static_cast<std::size_t>(*quota);
    if (!rows_.guesses()) ++local_.quota_refusals[index];
    return std::optional(
        Error(ErrorCode::kQuotaExceeded, kPgQuotaDetails[index], Delivery::kNotSent));
  }
  if (!asked.asks) return std::optional<Error>();
  const std::vector<std::uint64_t>* const claims = rows_.Claims();
  if (claims == nullptr) return std::nullopt;
  std::uint64_t waiting = 0;
  bool lacks = false;
  for (const std::uint64_t operation : *claims) {
    const StoredRow* const first = rows_.Row(operation);
    lacks = lacks || first == nullptr;
    const auto view =
        first != nullptr ? ParseRow(first->bytes) : std::unexpected(std::string_view());
    if (view && MadeBy(*view).caller == asked.caller) ++waiting;
  }
  if (lacks) return std::nullopt;
  return RefusalOf(asked, waiting, claims->size());
}

std::optional<std::optional<QuotaKind>> VerbFacts::Exceeded(const AdmissionOf& asked) {
  QuotaUsage::Use& use = local_.callers.Of(asked.caller);
  const Quota granted = asked.is_observed ? Quota() : asked.quota;
  const auto exceeded = [&] {
    return local_.callers.Exceeded(granted, use, asked.is_new, local_.LivedMs());
  };
  const auto quota = exceeded();
  const MonoTime now = local_.clock.Now();
  if (quota != QuotaKind::kStoredBytes || now - local_.stored_looked < kStoredLookedEvery) {
    return quota;
  }
  const std::vector<std::uint64_t> streams = local_.stored.streams();
  bool lacks = false;
  for (const std::uint64_t stream : streams) lacks = rows_.Stream(stream) == nullptr || lacks;
  if (lacks) return std::nullopt;
  for (const std::uint64_t stream : streams) {
    local_.stored.Free(stream, rows_.Stream(stream)->base, local_.callers);
  }
  local_.stored_looked = now;
  return exceeded();
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
    if (!rows_.guesses()) ++local_.quota_refusals[index];
    return Error(ErrorCode::kQuotaExceeded, kPgQuotaDetails[index], Delivery::kNotSent);
  }
  if (all >= limits::kPendingApprovalsMax) {
    return Error(ErrorCode::kOverloaded, "too many calls wait for a human", Delivery::kNotSent);
  }
  return std::nullopt;
}

Millis TimeLeft(const ApprovalFacts& facts, std::int64_t wall_ms) {
  const std::int64_t age_ms = wall_ms - facts.asked_ms;
  // Asked later than the processes' readings of the group's clock can differ: it was set back, and
  // nobody knows how long ago that was.
  if (age_ms < -limits::kClockJumpTold.count()) return kNoTimeLeft;
  return Millis(facts.expires_ms - std::max<std::int64_t>(age_ms, 0));
}

}  // namespace recourse
