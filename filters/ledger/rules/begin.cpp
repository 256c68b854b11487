#include "filters/ledger/rules/begin.h"

#include <utility>

#include "filters/ledger/model/standing_notes.h"
#include "filters/ledger/rules/begin_approval.h"
#include "filters/ledger/rules/begin_attempt.h"
#include "filters/ledger/rules/begin_fence.h"
#include "filters/ledger/rules/begin_lookup.h"
#include "filters/ledger/rules/record_outcome.h"
#include "filters/ledger/rules/standing_rules.h"
#include "proxy/base/bytes.h"
#include "proxy/base/check.h"

namespace recourse {
namespace {

// From now on the key means that operation, also when it has been answered. The alias need not be
// durable before the caller goes on: the mark that would make it matter is a later row. A call that
// was refused has become no part of the operation. What the call has found under an earlier recipe
// it finds under its own from now on.
bool Binds(const BeginDecision& decision, bool is_older) {
  return (decision.target == BeginDecision::Target::kSameIntent || is_older) &&
         decision.kind != Begun::Kind::kSuspected && decision.kind != Begun::Kind::kConflict &&
         decision.kind != Begun::Kind::kSuperseded &&
         decision.kind != Begun::Kind::kOtherCredentials;
}

Digest KeyOfObservedRepeat(const Digest& key, std::uint64_t row) {
  std::string text("recourse-observed-repeat");
  text.append(AsView(key));
  ByteWriter(text).Int(row);
  return Sha256(text);
}

// The key was looked for just now, so that what is stored of it can be read. nullopt: it cannot.
Judged<std::optional<Alias>> AliasOf(const Digest& key, std::uint64_t operation, Known& known) {
  const auto generation = FreeGeneration(key, 0, known);
  if (generation) return Alias{key, operation, *generation};
  if (std::holds_alternative<Need>(generation.error())) return std::unexpected(generation.error());
  return std::nullopt;
}

// All that is left of the operation; the rest is as the caller says.
Event EventOfTombstone(const FoundOperation& found, NewOperation& call) {
  Event event = std::move(call.event);
  event.id = event.operation = found.entry.operation;
  event.key = found.key;
  event.generation = found.entry.generation;
  event.attempt = found.entry.attempt;
  event.phase = Phase::kTombstone;
  event.settle.reset();
  return event;
}

Judged<bool> IsKeyOver(const NewOperation& call, std::uint64_t operation, Known& known) {
  if (call.key_lives == Millis::max()) return false;
  if (call.key_lives == Millis(0)) return true;
  const auto is_over = known.Get(KeyIsOver{operation, call.key_lives});
  if (!is_over) return std::unexpected(is_over.error());
  return **is_over;
}

// What Begun::is_answered says.
Judged<bool> CountsAsAnswered(const NewOperation& call, const KeyEntry& entry, Known& known) {
  if (entry.is_answered || entry.is_tombstone || !call.may_be_superseded) return entry.is_answered;
  const auto write = known.Get(FrontOf{entry.last_event});
  if (!write) return std::unexpected(write.error());
  return HasOtherPreconditions(call.event.stands, (*write)->stands);
}

// Counts it, if it is a replay.
Judged<int> ReplaysWith(Begun::Kind kind, const KeyEntry& entry, Known& known) {
  if (kind != Begun::Kind::kReplay || !entry.is_answered) return 0;
  const auto replays = known.Get(ReplaysOf{entry.operation});
  if (!replays) return std::unexpected(replays.error());
  return **replays;
}

Judged<BeginPlan> PlanRepeat(JudgedCall& call, Begun::Kind kind, const FoundOperation& found,
                             Known& known) {
  const KeyEntry& entry = found.entry;
  const auto replays = ReplaysWith(kind, entry, known);
  if (!replays) return std::unexpected(replays.error());
  const auto is_answered = CountsAsAnswered(*call, entry, known);
  if (!is_answered) return std::unexpected(is_answered.error());
  Judged<bool> is_key_over = false;
  if (call->may_resend && kind == Begun::Kind::kUnknown) {
    is_key_over = IsKeyOver(*call, entry.operation, known);
    if (!is_key_over) return std::unexpected(is_key_over.error());
  }
  Judged<AnswerAt::Fact*> event = nullptr;
  if (!entry.is_tombstone) {
    event = known.Get(AnswerAt{entry.last_event});
    if (!event) return std::unexpected(event.error());
  }
  Judged<BeginPlan> planned(std::in_place, Plan());  // so that the event is not filled with zeros
  Begun& begun = planned->begun;
  begun.kind = kind;
  begun.is_answered = *is_answered;
  begun.replays = *replays;
  begun.is_key_over = *is_key_over;
  if (kind == Begun::Kind::kRunning) planned->waits_for = entry.operation;
  if (entry.is_tombstone) {
    begun.event = EventOfTombstone(found, call.Take());
  } else if (!**event) {
    planned->load_after_commit = entry.last_event;
  } else {
    begun.event = std::move(***event);
    // Nobody works on what an earlier start left and this one could not take over.
    if (begun.event.is_locked && begun.event.phase == Phase::kDispatching) {
      begun.kind = Begun::Kind::kUnknown;
    }
  }
  return planned;
}

// Where enforce would send the call, it becomes what it would have become there. Everything else is
// an operation of its own, under a key that nobody else finds: what it repeats goes on answering.
Judged<BeginPlan> PlanObserved(JudgedCall& call, const BeginDecision& decision,
                               const FoundOperation* found, Known& known) {
  Prediction predicted = PredictionOf(*call, decision, found);
  if (decision.kind == Begun::Kind::kFresh) {
    return PlanAttempt(call, decision, found, std::move(predicted), known);
  }
  if (auto admitted = Admit(*call, true, known); !admitted) {
    return std::unexpected(admitted.error());
  }
  std::optional<Alias> alias;
  if (Binds(decision, false)) {
    auto bound = AliasOf(call->event.key, predicted.related, known);
    if (!bound) return std::unexpected(bound.error());
    alias = *bound;
  }
  BeginPlan planned = PlanOf(Begun::Kind::kFresh);
  planned.begun.related_attempt = found->entry.attempt;
  planned.begun.related_key = found->key;
  planned.writes_event = true;
  EventWrite write{std::move(call.Take().event), {}, EventWrite::Counts::kOperation};
  Event& event = write.event;
  Note(std::move(predicted), event);
  event.key = KeyOfObservedRepeat(event.key, known.next_row);
  event.base_key = event.key;
  event.intent = Digest{};
  event.attempt = 1;
  event.phase = Phase::kDispatching;
  event.cause = Cause::kRepeat;
  NoteDispatch(known.next_row, event);
  planned.plan.writes.emplace_back(std::move(write));
  if (alias) planned.plan.writes.emplace_back(AliasWrite{*alias});
  return planned;
}

// The last row of the operation is lost or not, nobody knows. Only a first beginning proves
// something: its request was held back because its row did not become durable.
Judged<BeginPlan> PlanLatched(JudgedCall& call, const KeyEntry& entry) {
  const bool is_first = entry.phase == Phase::kDispatching && entry.attempt == 1;
  if (is_first || IsClaim(entry.phase)) return Fails(LatchedError());
  BeginPlan planned = PlanOf(Begun::Kind::kUnknown);
  Event& event = planned.begun.event;
  event = std::move(call.Take().event);
  event.settle.reset();  // what a probe finds could not be written either
  event.id = event.operation = entry.operation;
  event.attempt = entry.attempt;
  event.phase = Phase::kUncertain;
  event.detail = "the outcome could not be written to the event log";
  return planned;
}

Judged<BeginPlan> PlanBehindFence(JudgedCall& call, const FoundOperation* found, std::uint64_t flow,
                                  Known& known) {
  if (found != nullptr && found->entry.phase == Phase::kCompensated) {
    return PlanRepeat(call, Begun::Kind::kCompensated, *found, known);
  }
  // What was sent and is not known stays unknown, whatever became of its flow.
  if (found != nullptr && MayHaveEffect(found->entry.phase)) {
    return PlanRepeat(call, Begun::Kind::kUnknown, *found, known);
  }
  BeginPlan planned = PlanOf(Begun::Kind::kFlowClosed);
  planned.begun.flow = flow;
  planned.begun.event = std::move(call.Take().event);
  return planned;
}

// What becomes of a call that would be a further attempt of the operation in `last`. The policy may
// name another backend or key field by now, or the agent another key: to that one the repeat would
// be new.
Judged<Begun::Kind> JudgeAttempt(const NewOperation& call, const Event& last, Known& known) {
  const std::optional<std::string> field = KeyFieldOf(last);
  if (last.phase == Phase::kUncertain) {
    if (last.is_locked || last.dedupe_domain != call.event.dedupe_domain) {
      return Begun::Kind::kUnknown;
    }
    // A repeat that sends it again would be a second use of its approval. Who passes the fence has
    // the request that was sent, key and all.
    const bool is_key_known = field || last.dedupe_domain == 0;
    if (!call.passes_fence && (last.approval || !is_key_known)) return Begun::Kind::kUnknown;
    const auto is_over = IsKeyOver(call, last.operation, known);
    if (!is_over) return std::unexpected(is_over.error());
    if (*is_over) return Begun::Kind::kUnknown;
  }
  if (IsObserved(call) || call.passes_fence || !field) return Begun::Kind::kFresh;
  const bool is_same = call.event.key_field.value_or(std::string()) == *field;
  return is_same ? Begun::Kind::kFresh : Begun::Kind::kOtherKey;
}

// How long a repeat of what had no effect has to wait, if it comes too often.
Judged<std::optional<Millis>> PauseOf(const NewOperation& call, const BeginLookup& lookup,
                                      Known& known) {
  if (!call.refusals_are_free || IsObserved(call)) return std::nullopt;
  if (call.event.state) return std::nullopt;  // counted when it was told to read that
  if (!lookup.same_key || lookup.same_key->entry.is_tombstone) return std::nullopt;
  const Phase last = lookup.same_key->entry.phase;
  if (last != Phase::kRejected && last != Phase::kNotSent) return std::nullopt;
  const auto pause = known.Get(TryOf{call.event.key, call.event.principal});
  if (!pause) return std::unexpected(pause.error());
  return **pause;
}

// What holds a call back that would be sent; nullopt: nothing.
Judged<std::optional<BeginPlan>> PlanHeldBack(JudgedCall& call, const BeginLookup& lookup,
                                              Known& known) {
  const auto some = [](Judged<BeginPlan> planned) -> Judged<std::optional<BeginPlan>> {
    if (!planned) return std::unexpected(planned.error());
    return std::move(*planned);
  };
  const FoundOperation* const target = lookup.target();
  const auto pause = PauseOf(*call, lookup, known);
  if (!pause) return std::unexpected(pause.error());
  if (*pause) {
    auto planned = PlanRepeat(call, Begun::Kind::kTooOften, *lookup.same_key, known);
    if (planned) planned->begun.again_in = **pause;
    return some(std::move(planned));
  }
  if (auto sound = CheckUndo(*call, known); !sound) return std::unexpected(sound.error());
  const bool may_have_effect = target != nullptr && MayHaveEffect(target->entry.phase);
  if (call->event.undoes != 0 && !may_have_effect) {
    const auto is_gone = IsGone(call->event.undoes, known);
    if (!is_gone) return std::unexpected(is_gone.error());
    if (*is_gone) {
      BeginPlan planned = PlanOf(Begun::Kind::kSuperseded);
      planned.begun.event = std::move(call.Take().event);
      return planned;
    }
  }
  const auto fence = FenceOf(*call, target, known);
  if (!fence) return std::unexpected(fence.error());
  if (*fence == 0) return std::nullopt;
  return some(PlanBehindFence(call, lookup.fenced(), *fence, known));
}

// Behind all that holds it back. A key that joins an operation must be remembered, or it would mean
// something else later.
Judged<BeginPlan> PlanEnforced(JudgedCall& call, const BeginLookup& lookup,
                               const BeginDecision& decision, Known& known) {
  const FoundOperation* const target = lookup.target();
  std::optional<Alias> alias;
  if (!known.is_latched && Binds(decision, lookup.is_older) && !lookup.is_refused) {
    const auto has_room = known.Get(RoomFor{limits::kSmallRowBytes});
    if (!has_room) return std::unexpected(has_room.error());
    if (!**has_room) {
      return Fails(Error(ErrorCode::kLedgerFull, "the event log has no room for another key",
                         Delivery::kUncertain));
    }
    const auto bound = AliasOf(call->event.key, target->entry.operation, known);
    if (!bound) return std::unexpected(bound.error());
    alias = *bound;
  }
  const bool may_have_effect = target != nullptr && MayHaveEffect(target->entry.phase);
  auto planned = decision.kind == Begun::Kind::kFresh
                     ? PlanAttempt(call, decision, target,
                                   {call->event.verdict, call->event.related, {}}, known)
                     : PlanRepeat(call, decision.kind, *target, known);
  if (planned) {
    planned->may_have_effect = may_have_effect;
    if (alias) planned->plan.writes.emplace_back(AliasWrite{*alias});
  } else if (may_have_effect) {
    if (auto* const error = std::get_if<Error>(&planned.error())) {
      *error = Error(error->code(), error->detail(), Delivery::kUncertain);
    }
  }
  return planned;
}

// A further attempt, as the operation's last event allows it.
Judged<std::optional<BeginPlan>> TakeAttempt(JudgedCall& call, const FoundOperation& target,
                                             BeginDecision& decision, Known& known) {
  const auto last = known.Get(EventAt{target.entry.last_event, AnswerPart::kOnlyRequest});
  if (!last) return std::unexpected(last.error());
  // What its attempts carried cannot be read; nobody sends it again before the key is back.
  if ((*last)->is_locked && (*last)->phase != Phase::kUncertain) return Fails(SealedError());
  const auto kind = JudgeAttempt(*call, **last, known);
  if (!kind) return std::unexpected(kind.error());
  decision.kind = *kind;
  if (decision.kind != Begun::Kind::kOtherKey) return std::nullopt;
  BeginPlan planned = PlanOf(decision.kind);
  planned.begun.event = std::move(**last);
  return planned;
}

}  // namespace

Judged<BeginPlan> BeginRule::Decide(Known& known) {
  if (call_->approved != 0) return DecideApproved(call_.Take(), known);
  if (!lookup_) {
    call_.Restore();
    auto lookup = LookUp(call_, known);
    if (!lookup) return std::unexpected(lookup.error());
    lookup_ = std::move(*lookup);
  }
  return DecideFound(known);
}

Judged<BeginPlan> BeginRule::DecideFound(Known& known) {
  JudgedCall& call = call_;
  BeginDecision decision = lookup_->decision;
  const FoundOperation* const target = lookup_->target();
  if (IsObserved(*call) && known.is_latched) return Fails(LatchedError());
  // What a failed commit may have written must not be told as if it stood.
  if (known.is_latched && target != nullptr && target->entry.last_event > known.durable_row) {
    return PlanLatched(call, target->entry);
  }
  if (known.is_latched && decision.kind == Begun::Kind::kFresh) {
    if (target == nullptr || !MayHaveEffect(target->entry.phase)) return Fails(LatchedError());
    decision.kind = Begun::Kind::kUnknown;  // the resend cannot be remembered
  }
  if (decision.kind == Begun::Kind::kFresh && target != nullptr) {
    auto other = TakeAttempt(call, *target, decision, known);
    if (!other) return std::unexpected(other.error());
    if (*other) return std::move(**other);
  }
  const bool is_fresh = decision.kind == Begun::Kind::kFresh;
  const bool is_unknown = target != nullptr && target->entry.phase == Phase::kUncertain;
  if (call->passes_fence && is_fresh && !is_unknown) {
    return Fails(Error(ErrorCode::kInternal, "its outcome is unknown no more"));
  }
  RC_CHECK(is_fresh || target != nullptr);
  if (is_fresh) {
    auto held = PlanHeldBack(call, *lookup_, known);
    if (!held) return std::unexpected(held.error());
    if (*held) return std::move(**held);
  }
  if (IsObserved(*call)) return PlanObserved(call, decision, target, known);
  return PlanEnforced(call, *lookup_, decision, known);
}

}  // namespace recourse
