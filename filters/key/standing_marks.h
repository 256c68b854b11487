// What a write leaves behind, and what makes its stored answer untrue: the marks of
// ledger/standing.h as calls, answers and the policy give them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "filters/key/key.h"
#include "filters/ledger/ledger.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

// Stands for the tenant fields of a call, TenantsOf, in all its marks; 0: it has none.
std::uint64_t TenantMark(const HmacKey& secret, const std::string& tenants);

// What a call writes to, however its query and the end of its path are spelled, and whoever asks.
// `tenants`: TenantMark.
Digest ResourceOf(const HmacKey& secret, const std::string& backend, std::string_view path,
                  Pairs query, std::uint64_t tenants);

// The same of the target of a request; nullopt: it has no one form.
std::optional<Digest> ResourceOfTarget(const HmacKey& secret, const std::string& backend,
                                       std::uint64_t tenants, std::string_view target);

// A call by name, by that and all its arguments.
Digest CallMark(const HmacKey& secret, const std::string& backend, const CallBody& body,
                std::uint64_t tenants, std::string_view arguments);

// Of a call: kind, actions and members. All but what its answer tells. `args_hash`: ArgsHash, here
// and below.
Standing StandingOf(const KeyInputs& inputs, std::uint64_t tenants, const Digest& args_hash);

MemberDigest MemberOf(const HmacKey& secret, const Json::Member& member);

// Adds what the call says of itself beside its marks, for whatever it may end: whether it is
// certain to remove what it names, of which tenant it is, and its content. Also the mark of a
// write with a query on its whole path.
void AddNotes(const KeyInputs& inputs, std::uint64_t tenants, const Digest& args_hash,
              Standing& stands);

// Adds what the answer tells: where the effect is, and what undoes it. `transition` has reference
// and undo request already.
struct EffectFacts {
  const Policy* policy = nullptr;  // null: nothing is known of backends
  const Backend& backend;
  const std::string& path;  // of the call, canonical
  const HttpResponse* answer = nullptr;
  const CallValues* values = nullptr;  // of the call and its answer, where they are at hand
  std::uint64_t tenants = 0;           // filled in from the event
};
void AddEffect(EffectFacts facts, const HmacKey& secret, const Event& dispatching,
               Transition& transition);

}  // namespace recourse
