// What began under names that a call would have had under earlier recipes, in ReferenceEngine.
#include <utility>

#include "tests/differential/reference.h"

namespace recourse {
namespace {

// The arguments of the operation are those of the call, as they were compared when it began.
void CompareUnder(const NewOperation& call, const OlderRecipe& older, KeyEntry& entry) {
  if (entry.args_hash == older.args_hash) entry.args_hash = call.event.args_hash;
}

}  // namespace

bool ReferenceEngine::Ground::would_be_made() const {
  const Found* const found = target();
  return decision.kind == Begun::Kind::kFresh &&
         (found == nullptr || !MayHaveEffect(found->entry.phase));
}

void ReferenceEngine::CompareAsThen(const NewOperation& call, std::optional<Found>& same_key) {
  if (!same_key) return;
  for (const OlderRecipe& older : call.older) {
    const bool is_its = older.key == call.event.key || older.key == same_key->key;
    if (is_its) CompareUnder(call, older, same_key->entry);
  }
}

// Whatever else it would mean under its own name, it is not made while the operation that it would
// have been earlier is unfinished. Other arguments are told as such: that they made it the same
// call was said by a policy that is in force no more, so nothing of it is shown to them.
Result<void> ReferenceEngine::HeedOlder(NewOperation& call, Ground& ground) {
  for (const OlderRecipe& older : call.older) {
    if (!ground.would_be_made()) break;
    Ground then;
    auto same_key = FindUnfinished(call, older);
    if (!same_key) return std::unexpected(same_key.error());
    if (*same_key) {
      then.same_key = std::move(*same_key);
      then.is_older = then.same_key->key != call.event.key;
    } else {
      auto same_intent = FindOlderIntent(call, older);
      if (!same_intent) return std::unexpected(same_intent.error());
      if (!*same_intent) continue;
      then.same_key = ground.same_key;
      then.same_intent = Dated(std::move(*same_intent));
    }
    const auto ended = IsSuperseded(call, then.same_intent ? then.same_intent : then.same_key);
    if (!ended) return std::unexpected(ended.error());
    then.key_ended = then.same_intent ? ground.key_ended : *ended;
    then.intent_ended = then.same_intent ? *ended : Ended::kNo;
    const OnMismatch said = std::exchange(call.on_mismatch, OnMismatch::kReject);
    Decide(call, then);
    call.on_mismatch = said;
    if (!then.would_be_made()) ground = std::move(then);
  }
  return {};
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindUnfinished(
    const NewOperation& call, const OlderRecipe& older) {
  auto found = FindByKey(older.key);
  if (!found || !*found) return found;
  found = Dated(std::move(*found));
  auto unanswered = FindUnanswered(call, older.key, *found);
  if (!unanswered) return unanswered;
  if (*unanswered) found = std::move(unanswered);
  KeyEntry& entry = (*found)->entry;
  // A version that wrote no owner down began none that has one.
  const bool is_anothers = !older.principal && entry.principal != kNoPrincipal;
  if (is_anothers || IsOver(entry)) return std::nullopt;
  CompareUnder(call, older, entry);
  return found;
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindOlderIntent(
    const NewOperation& call, const OlderRecipe& older) {
  if (call.across_traces == AcrossTraces::kNever || older.intent == Digest{}) return std::nullopt;
  auto found = FindByIntent(older.intent, older.principal.value_or(kNoPrincipal));
  if (!found || !*found || IsOver((*found)->entry)) return found ? std::nullopt : found;
  KeyEntry& entry = (*found)->entry;
  if (entry.principal != kNoPrincipal && entry.principal != older.principal) return std::nullopt;
  CompareUnder(call, older, entry);
  // The call's own, but not to be shown.
  if (entry.principal != call.event.principal) entry.principal = kNoPrincipal;
  return found;
}

}  // namespace recourse
