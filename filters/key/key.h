// The key of a write, its intent and its fingerprint. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/call/client_key.h"
#include "filters/call_context.h"
#include "filters/ledger/older_recipe.h"
#include "policy/model/principal.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {

// Everything a key may be made of. References to the caller's values.
struct KeyInputs {
  const HmacKey& secret;         // of the install secret
  const Tool& tool;              // UnlistedTool() when no tool matched
  const std::string& tool_name;  // "unlisted.<backend>" then
  const std::string& caller;
  const std::string& verified_field;
  const std::vector<Caller::Earlier>& earlier_callers;
  const std::string& backend;
  const PrincipalRule& principal;
  const TraceContext& trace;
  const HttpRequest& request;  // target: canonical path and query
  const std::string& path;
  const std::vector<std::pair<std::string, std::string>>& captures;  // decoded
  const std::vector<std::pair<std::string, std::string>>& query;     // decoded
  const CallBody& body;
  const UndoesByBody* undoes = nullptr;  // null: of it nothing is asked

  // A body of JSON in its canonical form, of which several digests are made; empty: it is none.
  const std::string& JsonText() const {
    const bool is_json = body.form == BodyForm::kJson;
    if (!json_text) json_text = is_json ? CanonicalJson(body.json) : std::string();
    return *json_text;
  }
  std::string JsonTextWithout(const std::vector<std::string>& ignore) const {
    const bool is_whole = ignore.empty() || body.form != BodyForm::kJson;
    return is_whole ? JsonText() : CanonicalJson(body.json, ignore);
  }
  mutable std::optional<std::string> json_text{};  // JsonText's
};

struct DerivedKey {
  Digest key{};
  Digest intent{};     // the key without its scope
  Digest args_hash{};  // fingerprint over all arguments
  // What names of the call were under earlier recipes, where those are others.
  std::vector<OlderRecipe> older;
  Principal principal = kNoPrincipal;
  // What the call writes to: backend, path and query; of one by name what it sets. Zeros: nothing
  // that is known.
  Digest resource{};
  Standing stands;
  // Nothing says which calls belong together, neither the call nor the policy.
  bool is_retry_only = false;
  bool has_identity = false;  // the policy's identity names the intent
  bool lacks_place = false;   // ... but not all of it is in the call
  // The scope is wider than one trace or session and nothing names the intent: the dedupe window
  // decides how long repeats count.
  bool is_windowed = false;
  bool is_named = false;  // the agent named its intent
  // The same intent under another trace is to be looked for.
  bool spans_traces = false;
  std::optional<Digest> named_key;        // the named intent, where it could be a key of ours
  std::optional<std::string> client_key;  // the agent's own Idempotency-Key, decoded
};

// Fails with kInvalidKey when the agent's own key cannot be read, with kKeyRequired when the scope
// that the policy names, or the trace that it requires, is not in the call: ScopeRequirement says
// which scope. Fails with kMalformedRequest when the policy selects from a JSON body that is a bare
// scalar.
Result<DerivedKey> DeriveKey(const KeyInputs& inputs);

// Of a mutation: its fingerprint is that of what it selects too, from here on. That is no part of
// the intent, but the answer to another selection has another form, and is not replayed to it.
void AddSelection(const CallBody& body, const HmacKey& secret, DerivedKey& derived);

// What names the call's intent: a field, of a message its `_meta`, or what stands where the
// backend takes its key. Fails with kInvalidKey as ReadClientIntent does, also when two name one
// and differ.
Result<ClientIntent> ReadNamedIntent(const Headers& headers, const CallBody& body);

// "the header X-Run-Id", for the detail of kKeyRequired.
std::string ScopeRequirement(const ScopeRule& scope);

// A key that no other call has, for calls that are only logged: `nonce` takes the place of every
// part but caller and tool. Has no intent; keeps the arguments' fingerprint.
DerivedKey UniqueKey(const KeyInputs& inputs, const std::string& nonce);

}  // namespace recourse
