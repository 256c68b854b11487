#include "filters/ledger/rules/begin_lookup.h"

#include <utility>

#include "filters/ledger/model/standing_notes.h"
#include "filters/ledger/rules/begin_approval.h"
#include "filters/ledger/rules/standing_rules.h"

namespace recourse {
namespace {

// What a write that runs, or whose outcome nobody knows, may do to another one.
enum class OpenKind : std::uint8_t { kEnds, kPatches, kUndoes };

bool MayEnd(OpenKind kind, const Standing& open, const Standing& write) {
  if (kind == OpenKind::kPatches) return Contradicts(open, write);
  return EndedByUndo(write, open) != Ended::kNo;
}

Judged<bool> MayBeEndedBy(const EventFront& write, const Mark& mark, OpenKind kind, Known& known) {
  const auto open = known.Get(OpenWritesAt{AsDigest(mark), DispatchOf(write)});
  if (!open) return std::unexpected(open.error());
  for (const OpenWritesAt::Open& one : **open) {
    if (one.operation == write.operation) continue;
    if (kind == OpenKind::kEnds) return true;
    const auto other = known.Get(FrontOf{one.last_event});
    if (!other) return std::unexpected(other.error());
    if (MayEnd(kind, (*other)->stands, write.stands)) return true;
  }
  return false;
}

Judged<bool> MayBeEndedByOpen(const EventFront& write, Known& known) {
  if (!known.has_open_writes) return false;
  std::vector<Mark> marks = EndsOf(write.stands, write.resource);
  const std::vector<Mark> doubts = DoubtsOf(write.stands);
  marks.insert(marks.end(), doubts.begin(), doubts.end());
  for (const Mark& mark : marks) {
    const auto ended = MayBeEndedBy(write, mark, OpenKind::kEnds, known);
    if (!ended || *ended) return ended;
  }
  for (const Mark& place : UndoPlaces(write.stands)) {
    const auto ended = MayBeEndedBy(write, place, OpenKind::kUndoes, known);
    if (!ended || *ended) return ended;
  }
  if (write.stands.kind != WriteKind::kPatch) return false;
  const Mark patched = MarkOn(MarkOf(write.resource), WriteKind::kPatch);
  return MayBeEndedBy(write, patched, OpenKind::kPatches, known);
}

Judged<Ended> IsSuperseded(const NewOperation& call, const MaybeFound& found, Known& known) {
  if (!call.may_be_superseded || !found || found->entry.is_tombstone) return Ended::kNo;
  const KeyEntry& entry = found->entry;
  if (!IsExecuted(entry.phase) && entry.phase != Phase::kCompensated) return Ended::kNo;
  const auto write = known.Get(FrontOf{entry.last_event});
  if (!write) return std::unexpected(write.error());
  if ((*write)->stands.kind == WriteKind::kNone) return Ended::kNo;
  if ((*write)->stands.is_over || entry.phase == Phase::kCompensated) return Ended::kYes;
  // Whoever had the whole answer, and then asks for another state to be there before, has looked
  // again: what was done then is not what is asked for now. Without the answer it may be a retry.
  if (entry.is_answered && HasOtherPreconditions(call.event.stands, (*write)->stands)) {
    return Ended::kYes;
  }
  auto ended = EndedSince(**write, entry.last_event, known);
  if (!ended || *ended == Ended::kYes) return ended;
  const auto is_open = MayBeEndedByOpen(**write, known);
  if (!is_open) return std::unexpected(is_open.error());
  if (*is_open) *ended = Ended::kPerhaps;
  // To make it again does no harm.
  const bool may_repeat = IsIdempotent(call.event.stands.kind);
  return *ended == Ended::kPerhaps && may_repeat ? Ended::kYes : *ended;
}

Judged<void> DecideOn(const NewOperation& call, BeginLookup& lookup, Known& known) {
  BeginFacts facts{.now_ms = known.wall_ms};
  if (lookup.same_key) {
    facts.same_key = &lookup.same_key->entry;
    if (call.is_retry_only) {
      const auto waits = ClientWaits(call, *lookup.same_key, known);
      if (!waits) return std::unexpected(waits.error());
      facts.key_client_waits = *waits;
    }
    facts.key_ended = lookup.key_ended;
  }
  if (lookup.same_intent) {
    facts.same_intent = &lookup.same_intent->entry;
    const auto waits = ClientWaits(call, *lookup.same_intent, known);
    if (!waits) return std::unexpected(waits.error());
    facts.intent_client_waits = *waits;
    facts.intent_ended = lookup.intent_ended;
  }
  lookup.decision = DecideBegin(call, facts);
  return {};
}

// What is there under the names of that recipe beside what was found; nullopt: nothing unfinished.
Judged<std::optional<BeginLookup>> LookUpUnder(const OlderRecipe& older, const NewOperation& call,
                                               const BeginLookup& now, Known& known) {
  BeginLookup then;
  auto same_key = FindUnfinished(call, older, known);
  if (!same_key) return std::unexpected(same_key.error());
  if (*same_key) {
    then.same_key = std::move(*same_key);
    then.is_older = then.same_key->key != call.event.key;
  } else {
    auto same_intent = FindOlderIntent(call, older, known);
    if (!same_intent) return std::unexpected(same_intent.error());
    if (!*same_intent) return std::nullopt;
    then.same_key = now.same_key;
    then.same_intent = std::move(*same_intent);
  }
  const auto ended = IsSuperseded(call, then.same_intent ? then.same_intent : then.same_key, known);
  if (!ended) return std::unexpected(ended.error());
  then.key_ended = then.same_intent ? now.key_ended : *ended;
  then.intent_ended = then.same_intent ? *ended : Ended::kNo;
  return then;
}

// Whatever else it would mean under its own name, it is not made while the operation that it would
// have been earlier is unfinished. Other arguments are told as such: that they made it the same
// call was said by a policy that is in force no more, so nothing of it is shown to them.
Judged<void> HeedOlder(const NewOperation& call, BeginLookup& lookup, Known& known) {
  for (const OlderRecipe& older : call.older) {
    if (!lookup.would_be_made()) break;
    auto then = LookUpUnder(older, call, lookup, known);
    if (!then) return std::unexpected(then.error());
    if (!*then) continue;
    NewOperation strict = call;
    strict.on_mismatch = OnMismatch::kReject;
    if (auto done = DecideOn(strict, **then, known); !done) return done;
    if (!(*then)->would_be_made()) lookup = std::move(**then);
  }
  return {};
}

// Humans judge it: it becomes, or repeats, an operation of its own.
Judged<void> TakeSuspicion(JudgedCall& call, BeginLookup& lookup, Known& known) {
  if (lookup.decision.kind != Begun::Kind::kSuspected || !call->suspicion) return {};
  const bool is_same_key = lookup.decision.target == BeginDecision::Target::kSameKey;
  Suspect(*lookup.target(), is_same_key, call.Change());
  if (is_same_key) {
    auto own = FindByKey(call->event.key, known);
    if (!own) return std::unexpected(own.error());
    lookup.same_key = std::move(*own);
  }
  lookup.same_intent.reset();
  return DecideOn(*call, lookup, known);
}

// A call that would ask a human: is told the no to an equal one, or shows that to another one.
Judged<void> HeedNo(JudgedCall& call, BeginLookup& lookup, Known& known) {
  const bool asks = lookup.decision.kind == Begun::Kind::kFresh && call->approval &&
                    call->event.verdict == ObserveVerdict::kNone;
  if (!asks) return {};
  if (const FoundOperation* const target = lookup.target()) {
    // It goes on with what was approved.
    const auto standing = StandingApproval(*call, *target, known);
    if (!standing) return std::unexpected(standing.error());
    if (*standing) return {};
  }
  const Event& event = call->event;
  const auto same =
      FindNo(KeyOfNo(event.caller, event.tool, event.args_hash), call->approval->expires, known);
  if (!same) return std::unexpected(same.error());
  if (*same) {
    lookup.same_intent = (*same)->found;
    lookup.decision = {.target = BeginDecision::Target::kSameIntent, .kind = Begun::Kind::kReplay};
    lookup.is_refused = true;
    return {};
  }
  const auto other = FindNo(KeyOfNo(event.caller, event.tool), call->approval->expires, known);
  if (!other) return std::unexpected(other.error());
  if (!*other) return {};
  const ApprovalDecision* const no = NoTo(*(*other)->event);
  if (no == nullptr) return {};
  std::string& why = call.Change().approval->why;
  why += (why.empty() ? "" : "; ") + TextOfNo(*(*other)->event, *no);
  return {};
}

// Under the call's own names.
Judged<BeginLookup> LookUpOwn(JudgedCall& call, Known& known) {
  BeginLookup lookup;
  auto same_key = FindMeant(call, known);
  if (!same_key) return std::unexpected(same_key.error());
  lookup.same_key = std::move(*same_key);
  auto unanswered = FindUnanswered(*call, call->event.key, lookup.same_key, known);
  if (!unanswered) return std::unexpected(unanswered.error());
  if (*unanswered) lookup.same_key = std::move(*unanswered);
  CompareAsThen(*call, lookup.same_key);
  const auto key_ended = IsSuperseded(*call, lookup.same_key, known);
  if (!key_ended) return std::unexpected(key_ended.error());
  lookup.key_ended = *key_ended;
  const bool is_free = lookup.key_ended == Ended::kYes;
  auto same_intent = FindSameIntent(*call, lookup.same_key, is_free, known);
  if (!same_intent) return std::unexpected(same_intent.error());
  lookup.same_intent = std::move(*same_intent);
  const auto intent_ended = IsSuperseded(*call, lookup.same_intent, known);
  if (!intent_ended) return std::unexpected(intent_ended.error());
  lookup.intent_ended = *intent_ended;
  return lookup;
}

}  // namespace

// An operation that was undone says more than its flow's fence.
const FoundOperation* BeginLookup::fenced() const {
  const bool was_undone = same_key && same_key->entry.phase == Phase::kCompensated;
  return was_undone ? &*same_key : target();
}

const FoundOperation* BeginLookup::target() const {
  if (decision.target == BeginDecision::Target::kSameKey) return &*same_key;
  if (decision.target == BeginDecision::Target::kSameIntent) return &*same_intent;
  return nullptr;
}

bool BeginLookup::would_be_made() const {
  const FoundOperation* const found = target();
  return decision.kind == Begun::Kind::kFresh &&
         (found == nullptr || !MayHaveEffect(found->entry.phase));
}

Judged<BeginLookup> LookUp(JudgedCall& call, Known& known) {
  auto lookup = LookUpOwn(call, known);
  if (!lookup) return lookup;
  if (auto done = DecideOn(*call, *lookup, known); !done) return std::unexpected(done.error());
  if (auto done = HeedOlder(*call, *lookup, known); !done) return std::unexpected(done.error());
  if (auto done = TakeSuspicion(call, *lookup, known); !done) return std::unexpected(done.error());
  if (auto done = HeedNo(call, *lookup, known); !done) return std::unexpected(done.error());
  return lookup;
}

Judged<bool> IsGone(std::uint64_t operation, Known& known) {
  const auto found = known.Get(OperationOf{operation});
  if (!found) return std::unexpected(found.error());
  if (!**found) return false;
  const std::uint64_t last = (**found)->entry.last_event;
  const auto write = known.Get(FrontOf{last});
  if (!write) return std::unexpected(write.error());
  if ((*write)->stands.is_gone) return true;
  return IsRemovedSince(**write, last, known);
}

}  // namespace recourse
