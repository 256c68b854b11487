#include "filters/ledger/rules/begin_find.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/rules/begin_decision.h"

namespace recourse {
namespace {

Judged<Event*> LastEventOf(const FoundOperation& found, Known& known) {
  return known.Get(EventAt{found.entry.last_event, AnswerPart::kOnlyRequest});
}

Judged<MaybeFound> FindByOperation(std::uint64_t operation, Known& known) {
  const auto found = known.Get(OperationOf{operation});
  if (!found) return std::unexpected(found.error());
  return **found;
}

// The operation that an alias stands for; whatever else was found is what it is.
Judged<MaybeFound> FollowAlias(FoundOperation found, Known& known) {
  if (!found.entry.is_alias) return found;
  auto meant = FindByOperation(found.entry.operation, known);
  if (!meant || *meant || found.entry.operation >= known.first_row) return meant;
  // What it stood for is kept no longer.
  found.entry.is_alias = false;
  found.entry.is_tombstone = true;
  found.entry.phase = Phase::kTombstone;
  return found;
}

// Under an earlier name of caller or tool it keeps its own, and is withheld.
bool IsMeantBy(const NewOperation& call, const FoundOperation& found, const Event& last) {
  const auto was_its_recipe = [&](const OlderRecipe& older) {
    return older.caller == last.caller && older.tool == last.tool;
  };
  const bool is_its = (last.caller == call.event.caller && last.tool == call.event.tool) ||
                      (std::ranges::any_of(call.older, was_its_recipe) && !IsOver(found.entry));
  return is_its && last.undoes == 0 && last.verdict == ObserveVerdict::kNone;
}

// The operation whose own key the agent has named, or what was made in its place.
Judged<MaybeFound> FindNamed(const NewOperation& call, Known& known) {
  const auto own = known.Get(KeyAt{*call.named});
  if (!own) return std::unexpected(own.error());
  if (!**own || (**own)->entry.operation == 0) return std::nullopt;
  FoundOperation named = ***own;
  if (named.entry.newest_generation > 0 && !MayHaveEffect(named.entry.phase)) {
    // What was made in its place and is told no more still counts.
    const Digest newest = KeyOfGeneration(named.key, named.entry.newest_generation);
    const auto later = known.Get(KeyAt{newest});
    if (!later) return std::unexpected(later.error());
    if (**later && ((**later)->entry.is_alias || (**later)->entry.is_tombstone)) named = ***later;
  }
  if (named.entry.is_tombstone) return named;
  auto found = FollowAlias(std::move(named), known);
  if (!found || !*found || (*found)->entry.is_tombstone) return found;
  const auto last = LastEventOf(**found, known);
  if (!last) return std::unexpected(last.error());
  if (!IsMeantBy(call, **found, **last)) return std::nullopt;
  return found;
}

// Whether the call is its retry, and not another one.
Judged<bool> IsRetryOf(const NewOperation& call, const FoundOperation& found, Known& known) {
  const KeyEntry& entry = found.entry;
  if (entry.is_tombstone || !(IsClaim(entry.phase) || MayHaveEffect(entry.phase))) return false;
  const auto waits = ClientWaits(call, found, known);
  if (!waits) return waits;
  return !IsAnotherCall(call, entry, *waits, known.wall_ms);
}

Judged<MaybeFound> FindByIntent(const Digest& intent, Principal principal, Known& known) {
  if (intent == Digest{}) return std::nullopt;
  auto operation = known.Get(IntentOf{KeyOfIntent(intent, principal)});
  // What an earlier version began may be anybody's.
  if (operation && !**operation) {
    operation = known.Get(IntentOf{KeyOfIntent(intent, kNoPrincipal)});
  }
  if (!operation) return std::unexpected(operation.error());
  if (!**operation) return std::nullopt;
  return FindByOperation(***operation, known);
}

Judged<bool> MayRepeat(const NewOperation& call, const FoundOperation& other, Known& known) {
  const auto waits = ClientWaits(call, other, known);
  if (!waits) return waits;
  return RepeatsAcross(call, other.entry, *waits, known.wall_ms);
}

// The same as FindUnanswered, of calls of one intent, before the one that was sent last.
Judged<MaybeFound> FindUnansweredBefore(const NewOperation& call, std::uint64_t last,
                                        Known& known) {
  const Digest intent = KeyOfIntent(call.event.intent, call.event.principal);
  for (std::uint32_t back = 0; back < kEqualCallsLooked; ++back) {
    const auto before = known.Get(IntentOf{KeyOfBefore(intent, last)});
    if (!before) return std::unexpected(before.error());
    if ((*before)->value_or(0) == 0) break;
    last = ***before;
    auto found = FindByOperation(last, known);
    if (!found) return found;
    if (!*found) continue;
    const auto repeats = MayRepeat(call, **found, known);
    if (!repeats) return std::unexpected(repeats.error());
    if (*repeats) return found;
  }
  return std::nullopt;
}

// The arguments of the operation are those of the call, as they were compared when it began.
void CompareUnder(const NewOperation& call, const OlderRecipe& older, KeyEntry& entry) {
  if (entry.args_hash == older.args_hash) entry.args_hash = call.event.args_hash;
}

}  // namespace

Judged<MaybeFound> FindByKey(const Digest& key, Known& known) {
  const auto found = known.Get(KeyAt{key});
  if (!found) return std::unexpected(found.error());
  if (!**found) return std::nullopt;
  const FoundOperation& first = ***found;
  if (first.entry.newest_generation == 0) return FollowAlias(first, known);
  const Digest newest = KeyOfGeneration(key, first.entry.newest_generation);
  const auto own = known.Get(KeyAt{newest});
  if (!own) return std::unexpected(own.error());
  if (**own) return FollowAlias(***own, known);
  // The tombstone of the newest generation is gone too; this one speaks for it.
  if (first.entry.is_alias || !first.entry.is_tombstone) return FollowAlias(first, known);
  FoundOperation last = first;
  last.key = newest;
  last.entry.generation = last.entry.newest_generation;
  return last;
}

Judged<MaybeFound> FindMeant(JudgedCall& call, Known& known) {
  // Whatever its key means by now.
  if (call->passes_fence) return FindByOperation(call->event.operation, known);
  auto found = FindByKey(call->event.key, known);
  // Observe mode tells nobody a key.
  if (!found || !call->named || call->event.verdict != ObserveVerdict::kNone) return found;
  if (!*found) found = FindNamed(*call, known);
  if (!found || !*found) return found;
  const KeyEntry& entry = (*found)->entry;
  if (entry.is_tombstone || MayHaveEffect(entry.phase)) return found;
  // The same call may have been made under another key in its place.
  const auto last = LastEventOf(**found, known);
  if (!last) return std::unexpected(last.error());
  if (call->event.intent != (*last)->intent) call.Change().event.intent = (*last)->intent;
  return found;
}

Judged<MaybeFound> FindUnanswered(const NewOperation& call, const Digest& base_key,
                                  const MaybeFound& newest, Known& known) {
  if (!call.is_retry_only || !newest) return std::nullopt;
  const auto is_newest = IsRetryOf(call, *newest, known);
  if (!is_newest) return std::unexpected(is_newest.error());
  if (*is_newest) return std::nullopt;
  const auto base = known.Get(GenerationOf{base_key});
  if (!base) return std::unexpected(base.error());
  const std::uint32_t generations = (*base)->value_or(0);
  for (std::uint32_t back = 1; back <= std::min(generations, kEqualCallsLooked); ++back) {
    const auto entry = known.Get(KeyAt{KeyOfGeneration(base_key, generations - back)});
    if (!entry) return std::unexpected(entry.error());
    if (!**entry) break;
    auto found = FollowAlias(***entry, known);
    if (!found) return found;
    if (!*found) continue;
    const auto is_retry = IsRetryOf(call, **found, known);
    if (!is_retry) return std::unexpected(is_retry.error());
    if (*is_retry) return found;
    if (known.wall_ms - (*found)->entry.last_wall_ms > call.across_window.count()) break;
  }
  return std::nullopt;
}

Judged<MaybeFound> FindSameIntent(const NewOperation& call, const MaybeFound& same_key,
                                  bool is_superseded, Known& known) {
  if (call.across_traces == AcrossTraces::kNever) return std::nullopt;
  // Its window may be over.
  const bool may_be_free = !same_key || is_superseded || !MayHaveEffect(same_key->entry.phase) ||
                           (call.dedupe_window && IsFinal(same_key->entry.phase));
  if (!may_be_free) return std::nullopt;
  auto found = FindByIntent(call.event.intent, call.event.principal, known);
  if (!found || !*found) return found;
  const KeyEntry& last = (*found)->entry;
  const auto repeats = MayRepeat(call, **found, known);
  if (!repeats) return std::unexpected(repeats.error());
  if (!*repeats) {
    auto unanswered = FindUnansweredBefore(call, last.operation, known);
    if (!unanswered || *unanswered) return unanswered;
  }
  if (call.across_traces != AcrossTraces::kAsk) return found;
  if (MayHaveEffect(last.phase) || IsClaim(last.phase)) return found;
  // A human was asked about it and it had no effect: what it was suspected to repeat still stands.
  const auto asked = LastEventOf(**found, known);
  if (!asked) return std::unexpected(asked.error());
  if (!(*asked)->approval || (*asked)->approval->repeats == 0) return found;
  return FindByOperation((*asked)->approval->repeats, known);
}

Judged<MaybeFound> FindUnfinished(const NewOperation& call, const OlderRecipe& older,
                                  Known& known) {
  auto found = FindByKey(older.key, known);
  if (!found || !*found) return found;
  auto unanswered = FindUnanswered(call, older.key, *found, known);
  if (!unanswered) return unanswered;
  if (*unanswered) found = std::move(unanswered);
  KeyEntry& entry = (*found)->entry;
  // A version that wrote no owner down began none that has one.
  const bool is_anothers = !older.principal && entry.principal != kNoPrincipal;
  if (is_anothers || IsOver(entry)) return std::nullopt;
  CompareUnder(call, older, entry);
  return found;
}

Judged<MaybeFound> FindOlderIntent(const NewOperation& call, const OlderRecipe& older,
                                   Known& known) {
  if (call.across_traces == AcrossTraces::kNever || older.intent == Digest{}) return std::nullopt;
  auto found = FindByIntent(older.intent, older.principal.value_or(kNoPrincipal), known);
  if (!found || !*found) return found;
  KeyEntry& entry = (*found)->entry;
  if (IsOver(entry)) return std::nullopt;
  if (entry.principal != kNoPrincipal && entry.principal != older.principal) return std::nullopt;
  CompareUnder(call, older, entry);
  // The call's own, but not to be shown.
  if (entry.principal != call.event.principal) entry.principal = kNoPrincipal;
  return found;
}

void CompareAsThen(const NewOperation& call, MaybeFound& same_key) {
  if (!same_key) return;
  for (const OlderRecipe& older : call.older) {
    const bool is_its = older.key == call.event.key || older.key == same_key->key;
    if (is_its) CompareUnder(call, older, same_key->entry);
  }
}

Judged<bool> ClientWaits(const NewOperation& call, const FoundOperation& found, Known& known) {
  if (call.wait == nullptr) return false;
  const auto waits = known.Get(OthersWait{call.wait, found.entry.operation});
  if (!waits) return std::unexpected(waits.error());
  return **waits;
}

// Of a key that is an alias the decision knows only the operation that it stands for.
Judged<std::uint32_t> FreeGeneration(const Digest& key, std::uint32_t wanted, Known& known) {
  const auto base = known.Get(GenerationOf{key});
  if (!base) return std::unexpected(base.error());
  return **base ? std::max(wanted, ***base + 1) : wanted;
}

}  // namespace recourse
