// What a call's names are made of: scope, intent and tenants, as a policy says. Pure.
#pragma once

#include <string>

#include "filters/key/key.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Changing what any part means needs a new version: old keys must never be met by accident.
inline constexpr std::string_view kKeyVersion = "recourse-key-1";

struct Scope {
  std::string kind;
  std::string value;
  std::string caller;  // empty for global
  bool is_wide = false;
  bool is_fallback = false;  // the call carries no scope
};

struct Intent {
  std::string text;
  bool is_named = false;
  bool has_identity = false;
  bool lacks_place = false;  // the call has nothing at one of the places of its identity
};

struct Recipe {
  Scope scope;
  Intent intent;
  ClientIntent named;
  std::string tenants;
};

// Fails as DeriveKey does.
Result<Recipe> ReadRecipe(const KeyInputs& inputs);

// The scope of all that one caller does.
Scope ScopeOfAll(const std::string& caller);
Intent NamedIntent(const ClientIntent& named);
// The identity values. One that is absent enters as such; when all of them are, they tell nothing,
// and the arguments take their place.
Intent IdentityOf(const KeyInputs& inputs, const Json* body);

// The header fields that are arguments; empty: none. With none of them, and no order, a fingerprint
// is that of every version.
std::string FieldsAmongArguments(const KeyInputs& inputs);
// The order of pairs of its form and its query that says something; empty: none.
std::string OrderAmongArguments(const KeyInputs& inputs);
// The fingerprint of the arguments. `fields`: those, and the order behind them; the first versions
// counted none, and later ones no order.
Digest ArgsHash(const KeyInputs& inputs, std::string_view fields);
// Without tenants both are the recipe of every version.
Digest KeyOf(const KeyInputs& inputs, const Scope& scope, const Intent& intent,
             const Digest& args_hash, const std::string& tenants);
Digest IntentDigest(const KeyInputs& inputs, const Scope& scope, const Intent& intent,
                    const Digest& args_hash, const std::string& tenants);

}  // namespace recourse
