// What began under names that a call would have had under earlier recipes, in ReferenceEngine.
#include "tests/differential/reference.h"

namespace recourse {

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindUnfinished(
    const OlderRecipe& older) {
  auto found = FindByKey(older.key);
  if (!found || !*found) return found;
  const KeyEntry& entry = (*found)->entry;
  // A version that wrote no owner down began none that has one.
  const bool is_anothers = !older.principal && entry.principal != kNoPrincipal;
  if (is_anothers || IsOver(entry)) return std::nullopt;
  return found;
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindOlderIntent(
    const NewOperation& call) {
  for (const OlderRecipe& older : call.older) {
    if (older.intent == Digest{}) continue;
    auto found = FindByIntent(older.intent, older.principal.value_or(kNoPrincipal));
    if (!found) return found;
    if (!*found || IsOver((*found)->entry)) continue;
    KeyEntry& entry = (*found)->entry;
    if (entry.principal != kNoPrincipal && entry.principal != older.principal) continue;
    entry.principal = kNoPrincipal;  // the call's own, but not to be shown
    return found;
  }
  return std::nullopt;
}

}  // namespace recourse
