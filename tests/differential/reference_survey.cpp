// What a call that begins finds in the ledger, and what that means.
#include <algorithm>
#include <utility>

#include "tests/differential/reference.h"

namespace recourse {
namespace {}  // namespace

// An operation that was undone says more than its flow's fence.
const ReferenceEngine::Found* ReferenceEngine::Ground::fenced() const {
  const bool was_undone = same_key && same_key->entry.phase == Phase::kCompensated;
  return was_undone ? &*same_key : target();
}

const ReferenceEngine::Found* ReferenceEngine::Ground::target() const {
  if (decision.target == BeginDecision::Target::kSameKey) return &*same_key;
  if (decision.target == BeginDecision::Target::kSameIntent) return &*same_intent;
  return nullptr;
}

Result<ReferenceEngine::Ground> ReferenceEngine::Survey(NewOperation& call) {
  Ground ground;
  auto same_key = FindMeant(call);
  if (!same_key) return std::unexpected(same_key.error());
  ground.same_key = Dated(std::move(*same_key));
  const auto unanswered = FindUnanswered(call, call.event.key, ground.same_key);
  if (!unanswered) return std::unexpected(unanswered.error());
  if (*unanswered) ground.same_key = *unanswered;
  CompareAsThen(call, ground.same_key);
  const auto key_ended = IsSuperseded(call, ground.same_key);
  if (!key_ended) return std::unexpected(key_ended.error());
  ground.key_ended = *key_ended;
  auto same_intent = FindSameIntent(call, ground.same_key, *key_ended == Ended::kYes);
  if (!same_intent) return std::unexpected(same_intent.error());
  ground.same_intent = std::move(*same_intent);
  const auto intent_ended = IsSuperseded(call, ground.same_intent);
  if (!intent_ended) return std::unexpected(intent_ended.error());
  ground.intent_ended = *intent_ended;
  Decide(call, ground);
  if (auto heeded = HeedOlder(call, ground); !heeded) return std::unexpected(heeded.error());
  if (ground.decision.kind == Begun::Kind::kSuspected && call.suspicion) {
    // Humans judge it: it becomes, or repeats, an operation of its own.
    const bool is_same_key = ground.decision.target == BeginDecision::Target::kSameKey;
    Suspect(*ground.target(), is_same_key, call);
    if (is_same_key) {
      auto own = FindByKey(call.event.key);
      if (!own) return std::unexpected(own.error());
      ground.same_key = Dated(std::move(*own));
    }
    ground.same_intent.reset();
    Decide(call, ground);
  }
  if (auto heeded = HeedNo(call, ground); !heeded) return std::unexpected(heeded.error());
  return ground;
}

void ReferenceEngine::Decide(const NewOperation& call, Ground& ground) const {
  BeginFacts facts{.now_ms = WallMs()};
  if (ground.same_key) {
    facts.same_key = &ground.same_key->entry;
    facts.key_client_waits = call.is_retry_only && ClientWaits(call, *ground.same_key);
    facts.key_ended = ground.key_ended;
  }
  if (ground.same_intent) {
    facts.same_intent = &ground.same_intent->entry;
    facts.intent_client_waits = ClientWaits(call, *ground.same_intent);
    facts.intent_ended = ground.intent_ended;
  }
  ground.decision = DecideBegin(call, facts);
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindUnanswered(
    const NewOperation& call, const Digest& base_key, const std::optional<Found>& newest) {
  const std::int64_t now_ms = WallMs();
  const auto is_its_retry = [&](const Found& found) {
    const KeyEntry& entry = found.entry;
    if (entry.is_tombstone || !(IsClaim(entry.phase) || MayHaveEffect(entry.phase))) return false;
    return !IsAnotherCall(call, entry, ClientWaits(call, found), now_ms);
  };
  if (!call.is_retry_only || !newest || is_its_retry(*newest)) return std::nullopt;
  const auto base = index_.Locate(base_key);
  if (!base) return std::unexpected(base.error());
  const std::uint32_t generations = *base ? (*base)->newest_generation : 0;
  for (std::uint32_t back = 1; back <= std::min(generations, kEqualCallsLooked); ++back) {
    const Digest key = KeyOfGeneration(base_key, generations - back);
    const auto entry = index_.Find(key);
    if (!entry) return std::unexpected(entry.error());
    if (!*entry) break;
    auto found = FollowAlias({key, **entry});
    if (!found) return std::unexpected(found.error());
    if (!*found) continue;
    found = Dated(std::move(*found));
    if (is_its_retry(**found)) return found;
    if (now_ms - (*found)->entry.last_wall_ms > call.across_window.count()) break;
  }
  return std::nullopt;
}

Result<std::optional<ReferenceEngine::Found>> ReferenceEngine::FindUnansweredBefore(
    const NewOperation& call, std::uint64_t last) {
  const std::int64_t now_ms = WallMs();
  const Digest intent = KeyOfIntent(call.event.intent, call.event.principal);
  for (std::uint32_t back = 0; back < kEqualCallsLooked; ++back) {
    const auto before = index_.FindIntent(KeyOfBefore(intent, last));
    if (!before) return std::unexpected(before.error());
    if (before->value_or(0) == 0) break;
    last = **before;
    auto found = FindByOperation(last);
    if (!found) return found;
    if (!*found) continue;
    found = Dated(std::move(*found));
    if (RepeatsAcross(call, (*found)->entry, ClientWaits(call, **found), now_ms)) return found;
  }
  return std::nullopt;
}

}  // namespace recourse
