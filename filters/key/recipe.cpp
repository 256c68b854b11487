#include "filters/key/recipe.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "filters/call/scope_text.h"
#include "filters/key/canonical_args.h"
#include "filters/key/pair_order.h"
#include "proxy/base/http/argument_fields.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json_canonical.h"

namespace recourse {
namespace {

constexpr std::string_view kIntentVersion = "recourse-intent-1";
constexpr std::string_view kArgsVersion = "recourse-args-1";

// Room for the parts of an intent but those of any length; what is longer grows.
constexpr std::size_t kPartsBytes = 256;

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
      return ScopeOfAll(inputs.caller);
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

// The tool that the call is a door to; nullptr: its own tool's.
const SameAsRule* DoorOf(const KeyInputs& inputs) {
  if (inputs.tool.same_as.empty()) return nullptr;
  CallValues values = ValuesOf(inputs, inputs.body.values());
  values.body_is_form = inputs.body.is_form();
  return recourse::DoorOf(inputs.tool, values);
}

// A path, a query and a header have texts alone: 7 there is the number 7 at a door with JSON.
Json AsAt(const Selector& place, Json value) {
  const bool is_text = place.source != Selector::Source::kBody;
  if (!is_text || value.kind != Json::Kind::kNumber) return value;
  Json text;
  text.kind = Json::Kind::kString;
  text.text = ScalarText(value);
  return text;
}

// One tool of the policy may stand for many of a server, which are no repeats of each other.
std::string ToolPart(const KeyInputs& inputs) {
  if (const SameAsRule* const door = DoorOf(inputs)) {
    std::string part = door->tool;
    if (!door->called.empty()) AppendPart(part, door->called);
    return part;
  }
  if (inputs.body.call_name.empty()) return inputs.tool_name;
  std::string part = inputs.tool_name;
  AppendPart(part, inputs.body.call_name);
  return part;
}

// The arguments' HMAC stands for them, so a large body is hashed once.
std::string_view ArgsPart(const Intent& intent, const Digest& args_hash) {
  const bool enter = !intent.is_named && !intent.has_identity;
  return enter ? AsView(args_hash) : std::string_view();
}

}  // namespace

Scope ScopeOfAll(const std::string& caller) { return {"caller", "", caller, true}; }

Intent NamedIntent(const ClientIntent& named) {
  Intent intent;
  AppendPart(intent.text, "named");
  AppendPart(intent.text, *named.intent);
  intent.is_named = true;
  return intent;
}

Intent IdentityOf(const KeyInputs& inputs, const Json* body) {
  Intent intent;
  const CallValues values = ValuesOf(inputs, body);
  std::string text;
  text.reserve(kPartsBytes);
  AppendPart(text, "identity");
  const SameAsRule* const door = DoorOf(inputs);
  const std::vector<Selector>& places = door != nullptr ? door->identity : inputs.tool.identity;
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::optional<Json> value = Select(places[i], values);
    if (door != nullptr && value) value = AsAt(door->named[i], std::move(*value));
    AppendPart(text, door != nullptr ? door->named[i].text : places[i].text);
    AppendPart(text, value ? "present" : "absent");
    AppendPart(text, value ? CanonicalJson(*value) : std::string());
    intent.has_identity = intent.has_identity || value.has_value();
    intent.lacks_place = intent.lacks_place || !value.has_value();
  }
  if (intent.has_identity) intent.text = std::move(text);
  return intent;
}

std::string FieldsAmongArguments(const KeyInputs& inputs) {
  std::string text;
  // What is called by name has its arguments in its message.
  if (!inputs.body.call_name.empty()) return text;
  for (const auto& [name, value] : ArgumentFieldsOf(inputs.request.headers)) {
    AppendPart(text, name);
    AppendPart(text, value);
  }
  return text;
}

std::string OrderAmongArguments(const KeyInputs& inputs) {
  if (!inputs.body.call_name.empty()) return {};
  const std::string of_query = OrderThatCounts(inputs.query);
  std::string of_form;
  if (inputs.body.form == BodyForm::kForm) {
    Pairs form = inputs.body.pairs;
    std::erase_if(form,
                  [&](const auto& pair) { return IsIgnored(pair.first, inputs.tool.ignore); });
    of_form = OrderThatCounts(form);
  }
  std::string text;
  if (of_query.empty() && of_form.empty()) return text;
  AppendPart(text, "order");
  AppendPart(text, of_query);
  AppendPart(text, of_form);
  return text;
}

Digest ArgsHash(const KeyInputs& inputs, std::string_view fields) {
  const auto hash = [&](const Pairs& query, const std::vector<std::string>& ignore) {
    std::string args =
        CanonicalArgs({inputs.request.method, inputs.path, inputs.request.target, query,
                       inputs.body, inputs.JsonTextWithout(ignore), inputs.request.body, ignore});
    args += fields;
    return inputs.secret.OfParts({kArgsVersion, args});
  };
  if (inputs.body.placed_key.empty()) return hash(inputs.query, inputs.tool.ignore);
  // The agent's key names the call wherever it stands, and is none of its arguments.
  const RequestPlace& place = inputs.tool.key->at;
  Pairs query = inputs.query;
  std::vector<std::string> ignore = inputs.tool.ignore;
  if (place.where == RequestPlace::Where::kBody) ignore.push_back(place.name);
  if (place.where == RequestPlace::Where::kQuery) {
    std::erase_if(query, [&](const auto& pair) { return pair.first == place.name; });
  }
  return hash(query, ignore);
}

Digest KeyOf(const KeyInputs& inputs, const Scope& scope, const Intent& intent,
             const Digest& args_hash, const std::string& tenants) {
  const std::string tool = ToolPart(inputs);
  const std::string_view args = ArgsPart(intent, args_hash);
  if (tenants.empty()) {
    return inputs.secret.OfParts(
        {kKeyVersion, scope.caller, tool, scope.kind, scope.value, intent.text, args});
  }
  return inputs.secret.OfParts(
      {kKeyVersion, scope.caller, tool, scope.kind, scope.value, intent.text, args, tenants});
}

Digest IntentDigest(const KeyInputs& inputs, const Scope& scope, const Intent& intent,
                    const Digest& args_hash, const std::string& tenants) {
  const std::string tool = ToolPart(inputs);
  const std::string_view args = ArgsPart(intent, args_hash);
  if (tenants.empty()) {
    return inputs.secret.OfParts({kIntentVersion, scope.caller, tool, intent.text, args});
  }
  return inputs.secret.OfParts({kIntentVersion, scope.caller, tool, intent.text, args, tenants});
}

Result<Recipe> ReadRecipe(const KeyInputs& inputs) {
  auto named = ReadNamedIntent(inputs.request.headers, inputs.body);
  if (!named) return std::unexpected(named.error());
  if (LacksStructure(inputs)) {
    return Malformed("the tool's arguments must be a JSON object or array");
  }
  Recipe recipe;
  recipe.intent = IntentOf(inputs, *named);
  const bool is_named = recipe.intent.is_named;
  if (inputs.tool.trace_required && !inputs.trace.from_client && !is_named) {
    return std::unexpected(
        Error(ErrorCode::kKeyRequired, "the call carries neither a trace nor a key"));
  }
  // SDKs keep one key over attempts that carry different traces.
  auto scope = is_named ? Result<Scope>(ScopeOfAll(inputs.caller)) : ScopeOf(inputs);
  if (!scope) return std::unexpected(scope.error());
  recipe.scope = std::move(*scope);
  recipe.named = std::move(*named);
  recipe.tenants = TenantsOf(inputs.request.headers);
  return recipe;
}

}  // namespace recourse
