#include "filters/key/key.h"

#include <string_view>

#include "filters/key/named_state.h"
#include "filters/key/older_names.h"
#include "filters/key/recipe.h"
#include "filters/key/standing_marks.h"
#include "policy/model/principal.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

constexpr std::string_view kSelectionVersion = "recourse-selection-1";

// What does not depend on how the call is named.
DerivedKey UnkeyedPart(const KeyInputs& inputs, std::string_view fields, std::uint64_t tenants) {
  DerivedKey derived;
  derived.args_hash = ArgsHash(inputs, fields);
  derived.principal = PrincipalOf(inputs.secret, inputs.caller, inputs.principal,
                                  inputs.request.headers, inputs.query, inputs.verified_field);
  if (inputs.body.call_name.empty()) {
    derived.resource =
        ResourceOf(inputs.secret, inputs.backend, inputs.path, inputs.query, tenants);
  }
  return derived;
}

}  // namespace

std::string ScopeRequirement(const ScopeRule& scope) {
  switch (scope.kind) {
    case ScopeRule::Kind::kSession:
      return "the header Recourse-Session or " + std::string(kSessionField);
    case ScopeRule::Kind::kHeader:
      return "the header " + scope.name;
    case ScopeRule::Kind::kBody:
      return "a value at " + scope.name + " of the body";
    case ScopeRule::Kind::kBaggage:
      return "the member " + scope.name + " of the baggage header";
    case ScopeRule::Kind::kTrace:
    case ScopeRule::Kind::kCaller:
    case ScopeRule::Kind::kGlobal:
      break;
  }
  return "nothing";
}

Result<ClientIntent> ReadNamedIntent(const Headers& headers, const CallBody& body) {
  auto named = ReadClientIntent(headers);
  if (!named) return named;
  if (!body.placed_key.empty()) {
    if (named->intent && *named->intent != body.placed_key) {
      return std::unexpected(
          Error(ErrorCode::kInvalidKey,
                "a header field names another intent than the key in the body or the query does"));
    }
    named->key = body.placed_key;
    named->intent = body.placed_key;
  }
  if (body.message_intent.empty()) return named;
  if (body.message_intent.size() > limits::kIdempotencyKeyBytesMax ||
      !IsFieldValue(body.message_intent)) {
    return std::unexpected(Error(ErrorCode::kInvalidKey,
                                 "_meta[\"dev.recourse/intent\"] has control characters, or more "
                                 "than 255 bytes"));
  }
  if (named->intent && *named->intent != body.message_intent) {
    return std::unexpected(
        Error(ErrorCode::kInvalidKey, "_meta and a header field name different intents"));
  }
  named->intent = body.message_intent;
  named->is_for_us = true;
  return named;
}

Result<DerivedKey> DeriveKey(const KeyInputs& inputs) {
  const auto recipe = ReadRecipe(inputs);
  if (!recipe) return std::unexpected(recipe.error());
  const auto& [scope, intent, named, tenants] = *recipe;

  const std::uint64_t tenant_mark = TenantMark(inputs.secret, tenants);
  const std::string fields = FieldsAmongArguments(inputs);
  const std::string order = OrderAmongArguments(inputs);
  DerivedKey derived = UnkeyedPart(inputs, fields + order, tenant_mark);
  derived.client_key = named.key;
  derived.is_named = intent.is_named;
  derived.stands = StandingOf(inputs, tenant_mark, derived.args_hash);
  derived.resource = inputs.body.call_name.empty()
                         ? AddPostedState(inputs, derived.resource, derived.stands)
                         : AddNamedState(inputs, derived.stands);
  derived.stands.is_named = intent.is_named;
  derived.has_identity = intent.has_identity;
  derived.lacks_place = intent.lacks_place;
  if (named.intent) derived.named_key = DigestFromHex(*named.intent);
  derived.is_windowed = scope.is_wide && !intent.is_named;
  derived.is_retry_only = scope.is_fallback && !intent.has_identity;
  derived.spans_traces = scope.kind == "trace";
  derived.key = KeyOf(inputs, scope, intent, derived.args_hash, tenants);
  derived.intent = IntentDigest(inputs, scope, intent, derived.args_hash, tenants);
  AddOlderNames(inputs, *recipe, fields, order, derived);
  return derived;
}

void AddSelection(const CallBody& body, const HmacKey& secret, DerivedKey& derived) {
  if (body.selection.empty()) return;
  const auto add = [&](Digest& fingerprint) {
    fingerprint = secret.OfParts({kSelectionVersion, AsView(fingerprint), body.selection});
  };
  add(derived.args_hash);
  for (OlderRecipe& older : derived.older) add(older.args_hash);
}

DerivedKey UniqueKey(const KeyInputs& inputs, const std::string& nonce) {
  const std::uint64_t tenants = TenantMark(inputs.secret, TenantsOf(inputs.request.headers));
  DerivedKey derived =
      UnkeyedPart(inputs, FieldsAmongArguments(inputs) + OrderAmongArguments(inputs), tenants);
  derived.key =
      inputs.secret.OfParts({kKeyVersion, inputs.caller, inputs.tool_name, "once", nonce});
  if (derived.resource != Digest{}) {
    derived.stands.kind = KindOfMethod(inputs.request.method);
    derived.stands.is_named = true;
    derived.stands.members = Members::kUnknown;
    AddNotes(inputs, tenants, derived.args_hash, derived.stands);
  }
  return derived;
}

}  // namespace recourse
