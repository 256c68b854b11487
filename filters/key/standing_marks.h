// What a write leaves behind, and what makes its stored answer untrue: the marks of
// ledger/standing.h as calls, answers and the policy give them. Pure.
#pragma once

#include <string>

#include "filters/key/key.h"
#include "filters/ledger/ledger.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

// What a call writes to, however its query and the end of its path are spelled, and whoever asks.
Digest ResourceOf(const HmacKey& secret, const std::string& backend, std::string_view path,
                  Pairs query);

// Of a call: kind, actions and members. All but what its answer tells.
Standing StandingOf(const KeyInputs& inputs);

// Adds what the answer tells: where the effect is, and what undoes it. `transition` has reference
// and undo request already.
struct EffectFacts {
  const Policy* policy = nullptr;  // null: nothing is known of backends
  const Backend& backend;
  const std::string& path;  // of the call, canonical
  const HttpResponse* answer = nullptr;
};
void AddEffect(const EffectFacts& facts, const HmacKey& secret, const Event& dispatching,
               Transition& transition);

}  // namespace recourse
