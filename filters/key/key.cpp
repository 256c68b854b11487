#include "filters/key/key.h"

#include <algorithm>
#include <string_view>

#include "filters/call/scope_text.h"
#include "filters/key/canonical_args.h"
#include "filters/key/standing_marks.h"
#include "proxy/base/crypto/sha256.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Changing what any part means needs a new version: old keys must never be met by accident.
constexpr std::string_view kKeyVersion = "recourse-key-1";
constexpr std::string_view kIntentVersion = "recourse-intent-1";
constexpr std::string_view kArgsVersion = "recourse-args-1";

// Room for the parts of an intent but those of any length; what is longer grows.
constexpr std::size_t kPartsBytes = 256;

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
};

CallValues ValuesOf(const KeyInputs& inputs, const Json* body) {
  CallValues values;
  values.path = &inputs.captures;
  values.query = &inputs.query;
  values.headers = &inputs.request.headers;
  values.body = body;
  return values;
}

std::string TextAtScope(const KeyInputs& inputs) {
  return ScopeText(inputs.request.headers, inputs.body, inputs.tool.scope);
}

Scope CallerScope(const KeyInputs& inputs) { return {"caller", "", inputs.caller, true}; }

// Of a call without a trace: its session, else whoever its credentials belong to.
Scope ScopeWithoutTrace(const KeyInputs& inputs) {
  std::string session =
      ScopeText(inputs.request.headers, inputs.body, {ScopeRule::Kind::kSession, {}});
  if (!session.empty()) return {"session", std::move(session), inputs.caller, true};
  return {"credentials", CredentialLabel(inputs.principal, inputs.request.headers, inputs.query),
          inputs.caller, true, true};
}

// A scope named by a value of the call; an empty value means that it is not there.
Result<Scope> NamedScope(const KeyInputs& inputs, std::string kind, std::string value) {
  if (value.empty()) {
    return std::unexpected(
        Error(ErrorCode::kKeyRequired, "the call does not carry the scope that its tool needs"));
  }
  const std::string& name = inputs.tool.scope.name;
  if (!name.empty()) AppendPart(kind, name);
  return Scope{std::move(kind), std::move(value), inputs.caller, false};
}

Result<Scope> ScopeOf(const KeyInputs& inputs) {
  const ScopeRule& rule = inputs.tool.scope;
  switch (rule.kind) {
    case ScopeRule::Kind::kTrace:
      // A trace made here is new with every call and would make every key new.
      if (!inputs.trace.from_client) return ScopeWithoutTrace(inputs);
      return Scope{"trace", inputs.trace.trace_id, inputs.caller, false};
    case ScopeRule::Kind::kCaller:
      return CallerScope(inputs);
    case ScopeRule::Kind::kGlobal:
      return Scope{"global", "", "", true};
    case ScopeRule::Kind::kSession:
      return NamedScope(inputs, "session", TextAtScope(inputs));
    case ScopeRule::Kind::kHeader:
      return NamedScope(inputs, "header", TextAtScope(inputs));
    case ScopeRule::Kind::kBody:
      return NamedScope(inputs, "body", TextAtScope(inputs));
    case ScopeRule::Kind::kBaggage:
      return NamedScope(inputs, "baggage", TextAtScope(inputs));
  }
  return std::unexpected(Error(ErrorCode::kInternal, "unknown scope"));
}

Intent NamedIntent(const ClientIntent& named) {
  Intent intent;
  AppendPart(intent.text, "named");
  AppendPart(intent.text, *named.intent);
  intent.is_named = true;
  return intent;
}

// The identity values. One that is absent enters as such; when all of them are, they tell nothing,
// and the arguments take their place.
Intent IdentityOf(const KeyInputs& inputs, const Json* body) {
  Intent intent;
  const CallValues values = ValuesOf(inputs, body);
  std::string text;
  text.reserve(kPartsBytes);
  AppendPart(text, "identity");
  for (const Selector& selector : inputs.tool.identity) {
    const std::optional<Json> value = Select(selector, values);
    AppendPart(text, selector.text);
    AppendPart(text, value ? "present" : "absent");
    AppendPart(text, value ? CanonicalJson(*value) : std::string());
    intent.has_identity = intent.has_identity || value.has_value();
  }
  if (intent.has_identity) intent.text = std::move(text);
  return intent;
}

// What the agent named for us; else the identity, since SDKs name every call at random; else the
// agent's key.
Intent IntentOf(const KeyInputs& inputs, const ClientIntent& named) {
  const bool beats_identity = named.is_for_us || inputs.tool.agent_key == AgentKey::kWins;
  if (named.intent && beats_identity) return NamedIntent(named);
  Intent identity = IdentityOf(inputs, inputs.body.values());
  return named.intent && !identity.has_identity ? NamedIntent(named) : identity;
}

// Selectors on a JSON body need something to select from.
bool LacksStructure(const KeyInputs& inputs) {
  if (inputs.body.form != BodyForm::kJson || !inputs.body.json.is_scalar()) return false;
  return !inputs.tool.ignore.empty() ||
         std::any_of(
             inputs.tool.identity.begin(), inputs.tool.identity.end(),
             [](const Selector& selector) { return selector.source == Selector::Source::kBody; });
}

// One tool of the policy may stand for many of an MCP server, which are no repeats of each other.
std::string ToolPart(const KeyInputs& inputs) {
  if (inputs.body.mcp_name.empty()) return inputs.tool_name;
  std::string part = inputs.tool_name;
  AppendPart(part, inputs.body.mcp_name);
  return part;
}

Digest ArgsHash(const KeyInputs& inputs, const HmacKey& secret) {
  const std::string args =
      CanonicalArgs({inputs.request.method, inputs.path, inputs.request.target, inputs.query,
                     inputs.body, inputs.request.body, inputs.tool.ignore});
  return secret.OfParts({kArgsVersion, args});
}

// What does not depend on how the call is named.
DerivedKey UnkeyedPart(const KeyInputs& inputs, const HmacKey& secret) {
  DerivedKey derived;
  derived.args_hash = ArgsHash(inputs, secret);
  derived.principal = PrincipalOf(secret, inputs.caller, inputs.principal, inputs.request.headers,
                                  inputs.query, inputs.verified_field);
  if (inputs.body.mcp_name.empty()) {
    derived.resource = ResourceOf(secret, inputs.backend, inputs.path, inputs.query);
  }
  return derived;
}

// The arguments' HMAC stands for them, so a large body is hashed once.
std::string_view ArgsPart(const Intent& intent, const Digest& args_hash) {
  const bool enter = !intent.is_named && !intent.has_identity;
  return enter ? AsView(args_hash) : std::string_view();
}

// Without tenants the recipe of every version.
Digest KeyOf(const KeyInputs& inputs, const HmacKey& secret, const Scope& scope,
             const Intent& intent, const Digest& args_hash, const std::string& tenants) {
  const std::string tool = ToolPart(inputs);
  const std::string_view args = ArgsPart(intent, args_hash);
  if (tenants.empty()) {
    return secret.OfParts(
        {kKeyVersion, scope.caller, tool, scope.kind, scope.value, intent.text, args});
  }
  return secret.OfParts(
      {kKeyVersion, scope.caller, tool, scope.kind, scope.value, intent.text, args, tenants});
}

Digest IntentDigest(const KeyInputs& inputs, const HmacKey& secret, const Scope& scope,
                    const Intent& intent, const Digest& args_hash, const std::string& tenants) {
  const std::string tool = ToolPart(inputs);
  const std::string_view args = ArgsPart(intent, args_hash);
  if (tenants.empty()) {
    return secret.OfParts({kIntentVersion, scope.caller, tool, intent.text, args});
  }
  return secret.OfParts({kIntentVersion, scope.caller, tool, intent.text, args, tenants});
}

// What a key is made of, besides the call itself.
struct Recipe {
  const Scope& scope;
  const Intent& intent;
  const ClientIntent& named;
  const std::string& tenants;
};

Scope ScopeOfCaller(Scope scope, const std::string& caller) {
  if (scope.kind != "global") scope.caller = caller;
  return scope;
}

// Version 1 knew neither tenants nor credentials and read no values from multipart, and an agent's
// key beat every identity.
void AddVersion1(const KeyInputs& inputs, const HmacKey& secret, const Recipe& recipe,
                 const std::string& caller, DerivedKey& derived) {
  const Scope& scope = recipe.scope;
  const bool was_named = recipe.named.intent.has_value() && !recipe.intent.is_named;
  const bool was_callers = was_named || (scope.is_wide && scope.kind != "global");
  const bool was_unread = recipe.intent.has_identity && inputs.body.form == BodyForm::kMultipart;
  if (recipe.tenants.empty() && !was_callers && !was_unread) return;
  const Scope wide{"caller", "", caller, true};
  const Digest key = KeyOf(inputs, secret, was_callers ? wide : ScopeOfCaller(scope, caller),
                           was_named    ? NamedIntent(recipe.named)
                           : was_unread ? IdentityOf(inputs, nullptr)
                                        : recipe.intent,
                           derived.args_hash, std::string());
  if (key != derived.key) derived.older.push_back({.key = key, .caller = caller});
}

// Later versions told fewer names of fields apart.
void AddEarlierNames(const KeyInputs& inputs, const HmacKey& secret, const Recipe& recipe,
                     DerivedKey& derived) {
  const Headers& headers = inputs.request.headers;
  const std::string tenants = TenantsOf(headers, FieldNames::kEarlier);
  Scope scope = recipe.scope;
  if (scope.is_fallback) {
    scope.value = CredentialLabel(inputs.principal, headers, inputs.query, FieldNames::kEarlier);
  }
  if (tenants == recipe.tenants && scope.value == recipe.scope.value) return;
  derived.older.push_back(
      {.key = KeyOf(inputs, secret, scope, recipe.intent, derived.args_hash, tenants),
       .intent = IntentDigest(inputs, secret, scope, recipe.intent, derived.args_hash, tenants),
       .caller = inputs.caller,
       .principal = PrincipalOf(secret, inputs.caller, inputs.principal, headers, inputs.query,
                                inputs.verified_field, FieldNames::kEarlier)});
}

void AddOlder(const KeyInputs& inputs, const HmacKey& secret, const Recipe& recipe,
              DerivedKey& derived) {
  AddVersion1(inputs, secret, recipe, inputs.caller, derived);
  AddEarlierNames(inputs, secret, recipe, derived);
  for (const Caller::Earlier& earlier : inputs.earlier_callers) {
    const Scope scope = ScopeOfCaller(recipe.scope, earlier.name);
    OlderRecipe older;
    older.caller = earlier.name;
    older.key = KeyOf(inputs, secret, scope, recipe.intent, derived.args_hash, recipe.tenants);
    older.intent =
        IntentDigest(inputs, secret, scope, recipe.intent, derived.args_hash, recipe.tenants);
    older.principal = PrincipalOf(
        secret, earlier.name, inputs.principal, inputs.request.headers, inputs.query,
        earlier.has_token ? std::string_view(inputs.verified_field) : std::string_view());
    if (older.key != derived.key) derived.older.push_back(std::move(older));
    AddVersion1(inputs, secret, recipe, earlier.name, derived);
  }
}

}  // namespace

std::string ScopeRequirement(const ScopeRule& scope) {
  switch (scope.kind) {
    case ScopeRule::Kind::kSession:
      return "the header Recourse-Session or Mcp-Session-Id";
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
  if (body.mcp_intent.empty()) return named;
  if (body.mcp_intent.size() > limits::kIdempotencyKeyBytesMax || !IsFieldValue(body.mcp_intent)) {
    return std::unexpected(Error(ErrorCode::kInvalidKey,
                                 "_meta[\"dev.recourse/intent\"] has control characters, or more "
                                 "than 255 bytes"));
  }
  if (named->intent && *named->intent != body.mcp_intent) {
    return std::unexpected(
        Error(ErrorCode::kInvalidKey, "_meta and a header field name different intents"));
  }
  named->intent = body.mcp_intent;
  named->is_for_us = true;
  return named;
}

Result<DerivedKey> DeriveKey(const KeyInputs& inputs) {
  const auto named = ReadNamedIntent(inputs.request.headers, inputs.body);
  if (!named) return std::unexpected(named.error());
  if (LacksStructure(inputs)) {
    return Malformed("the tool's arguments must be a JSON object or array");
  }
  const Intent intent = IntentOf(inputs, *named);
  if (inputs.tool.trace_required && !inputs.trace.from_client && !intent.is_named) {
    return std::unexpected(
        Error(ErrorCode::kKeyRequired, "the call carries neither a trace nor a key"));
  }
  // SDKs keep one key over attempts that carry different traces.
  const auto scope = intent.is_named ? Result<Scope>(CallerScope(inputs)) : ScopeOf(inputs);
  if (!scope) return std::unexpected(scope.error());

  const HmacKey secret(inputs.install_secret);
  DerivedKey derived = UnkeyedPart(inputs, secret);
  derived.client_key = named->key;
  derived.is_named = intent.is_named;
  derived.stands = StandingOf(inputs, secret);
  derived.stands.is_named = intent.is_named;
  derived.has_identity = intent.has_identity;
  if (named->intent) derived.named_key = DigestFromHex(*named->intent);
  derived.is_windowed = scope->is_wide && !intent.is_named;
  derived.is_retry_only = scope->is_fallback && !intent.has_identity;
  derived.spans_traces = scope->kind == "trace";
  const std::string tenants = TenantsOf(inputs.request.headers);
  derived.key = KeyOf(inputs, secret, *scope, intent, derived.args_hash, tenants);
  derived.intent = IntentDigest(inputs, secret, *scope, intent, derived.args_hash, tenants);
  AddOlder(inputs, secret, {*scope, intent, *named, tenants}, derived);
  return derived;
}

DerivedKey UniqueKey(const KeyInputs& inputs, const std::string& nonce) {
  const HmacKey secret(inputs.install_secret);
  DerivedKey derived = UnkeyedPart(inputs, secret);
  derived.key = secret.OfParts({kKeyVersion, inputs.caller, inputs.tool_name, "once", nonce});
  if (derived.resource != Digest{}) {
    derived.stands.kind = KindOfMethod(inputs.request.method);
    derived.stands.is_named = true;
    derived.stands.members = Members::kUnknown;
  }
  return derived;
}

}  // namespace recourse
