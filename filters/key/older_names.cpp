#include "filters/key/older_names.h"

#include <algorithm>
#include <utility>

#include "filters/call/stored_call.h"
#include "filters/key/operation_request.h"
#include "policy/model/route_table.h"

namespace recourse {
namespace {

Scope ScopeOfCaller(Scope scope, const std::string& caller) {
  if (scope.kind != "global") scope.caller = caller;
  return scope;
}

// Version 1 knew neither tenants nor credentials and read no values from multipart, and an agent's
// key beat every identity.
void AddVersion1(const KeyInputs& inputs, const Recipe& recipe, const std::string& caller,
                 const Digest& args_hash, DerivedKey& derived) {
  const Scope& scope = recipe.scope;
  const bool was_named = recipe.named.intent.has_value() && !recipe.intent.is_named;
  const bool was_callers = was_named || (scope.is_wide && scope.kind != "global");
  const bool was_unread = recipe.intent.has_identity && inputs.body.form == BodyForm::kMultipart;
  if (recipe.tenants.empty() && !was_callers && !was_unread) return;
  const Digest key = KeyOf(inputs, was_callers ? ScopeOfAll(caller) : ScopeOfCaller(scope, caller),
                           was_named    ? NamedIntent(recipe.named)
                           : was_unread ? IdentityOf(inputs, nullptr)
                                        : recipe.intent,
                           args_hash, std::string());
  if (key == derived.key) return;
  derived.older.push_back(
      {.key = key, .args_hash = args_hash, .tool = inputs.tool_name, .caller = caller});
}

// Later versions told fewer names of fields apart.
void AddNamesAs(FieldNames names, const KeyInputs& inputs, const Recipe& recipe,
                const Digest& args_hash, DerivedKey& derived) {
  const Headers& headers = inputs.request.headers;
  const std::string tenants = TenantsOf(headers, names);
  Scope scope = recipe.scope;
  if (scope.is_fallback) {
    scope.value = CredentialLabel(inputs.principal, headers, inputs.query, names);
  }
  const Principal principal = PrincipalOf(inputs.secret, inputs.caller, inputs.principal, headers,
                                          inputs.query, inputs.verified_field, names);
  if (tenants == recipe.tenants && scope.value == recipe.scope.value &&
      principal == derived.principal) {
    return;
  }
  const Digest key = KeyOf(inputs, scope, recipe.intent, args_hash, tenants);
  const bool is_known = !derived.older.empty() && derived.older.back().key == key &&
                        derived.older.back().principal == principal;
  if (is_known) return;  // both read it alike
  derived.older.push_back({.key = key,
                           .intent = IntentDigest(inputs, scope, recipe.intent, args_hash, tenants),
                           .args_hash = args_hash,
                           .tool = inputs.tool_name,
                           .caller = inputs.caller,
                           .principal = principal});
}

// The backend of that policy that a call to `backend` would have gone to; nullptr: none.
const Backend* SamePlaceIn(const Policy& policy, const Backend& backend) {
  const Backend* place = nullptr;
  for (const Backend& each : policy.backends) {
    if (!IsSamePlace(each, backend)) continue;
    if (place == nullptr || each.name == backend.name) place = &each;
  }
  return place;
}

// The tool of a write that was remembered; of none: an unlisted one.
struct Treatment {
  const Tool* tool = nullptr;
  std::string name;
  Pairs captures;
};

std::optional<Treatment> TreatmentUnder(const Policy& policy, const Backend& backend,
                                        const RequestContext& context, const CallBody& body) {
  Treatment treatment;
  UnlistedRule unlisted = policy.unlisted_writes;
  if (backend.has_endpoint()) {
    if (body.calls_tool()) treatment.tool = policy.routes->FindCalledTool(backend, body.call_name);
  } else {
    std::string scratch;
    const auto match = policy.routes->Match(backend, context.request.method, context.path, scratch);
    if (!match || match->effect == Effect::kRead) return std::nullopt;
    treatment.tool = match->tool;
    unlisted = match->unlisted;
    for (std::size_t i = 0; i < match->capture_count; ++i) {
      std::string value;
      PercentDecode(match->captures[i].value, value);
      treatment.captures.emplace_back(std::string(match->captures[i].name), std::move(value));
    }
  }
  if (treatment.tool == nullptr && unlisted != UnlistedRule::kGuard) return std::nullopt;
  if (treatment.tool != nullptr && treatment.tool->effect == Effect::kRead) return std::nullopt;
  treatment.name = treatment.tool == nullptr ? "unlisted." + backend.name : treatment.tool->name;
  return treatment;
}

// What a call is made of under one of those policies.
struct EarlierCall {
  const EarlierPolicy& by;
  const Backend& backend;
  const Treatment& treatment;
  const HttpRequest& request;
  bool compares_alike;  // its arguments are those of now
};

std::optional<OlderRecipe> NamesOf(const EarlierCall& call, const RequestContext& context,
                                   const CallBody& body, const HmacKey& secret,
                                   const Digest& args_hash) {
  static const std::vector<Caller::Earlier> kNoCallers;
  const Treatment& treatment = call.treatment;
  const Tool& tool = treatment.tool == nullptr ? UnlistedTool() : *treatment.tool;
  const PrincipalRule& principal = call.by.policy->principal;
  const KeyInputs inputs{secret,
                         tool,
                         treatment.name,
                         call.by.caller,
                         call.by.verified_field,
                         kNoCallers,
                         call.backend.name,
                         principal,
                         context.trace,
                         call.request,
                         context.path,
                         treatment.captures,
                         context.query,
                         body};
  const auto recipe = ReadRecipe(inputs);
  if (!recipe) return std::nullopt;  // it was refused
  const auto& [scope, intent, named, tenants] = *recipe;
  const Digest args =
      call.compares_alike
          ? args_hash
          : ArgsHash(inputs, FieldsAmongArguments(inputs) + OrderAmongArguments(inputs));
  return OlderRecipe{
      .key = KeyOf(inputs, scope, intent, args, tenants),
      .intent = IntentDigest(inputs, scope, intent, args, tenants),
      .args_hash = args,
      .tool = treatment.name,
      .caller = call.by.caller,
      .principal = PrincipalOf(secret, call.by.caller, principal, call.request.headers,
                               context.query, call.by.verified_field)};
}

// The fields as the agent may have sent them, read as where the backend's key has that name. By now
// nobody knows which of the two names the agent's own key came under.
std::vector<Headers> FieldsUnder(const KeyRule& then, const KeyRule& now,
                                 const RequestContext& context) {
  std::vector<Headers> all{context.request.headers};
  if (now.at.is_field() && !now.at.IsField(kKeyField)) {
    all.push_back(context.request.headers);
    for (auto& [name, value] : all.back()) {
      if (EqualsIgnoreCase(name, kKeyField)) name = now.at.name;
    }
  }
  for (Headers& fields : all) AdoptKeyField(then, fields);
  return all;
}

// The body with the key that stood where that tool has it, which may be another place; unset: it is
// the same key. Fails where the tool would have refused it.
Result<std::optional<CallBody>> BodyUnder(const Tool* tool, const RequestContext& context,
                                          const CallBody& body) {
  auto placed = ReadPlacedKey(tool, context, body);
  if (!placed) return std::unexpected(placed.error());
  if (*placed == body.placed_key) return std::nullopt;
  CallBody other = body;
  other.placed_key = std::move(*placed);
  return other;
}

// Where the agent wrote a key that is none of the arguments.
RequestPlace PlaceOfKeyIn(const Tool& tool, const CallBody& body) {
  return body.placed_key.empty() ? RequestPlace() : tool.key->at;
}

void AddNamesUnder(const EarlierPolicy& earlier, const RequestContext& context,
                   const CallBody& body, const HmacKey& secret, DerivedKey& derived) {
  const Policy& policy = *earlier.policy;
  // What observe mode let pass was promised nothing.
  if (policy.mode == Mode::kObserve || policy.routes == nullptr) return;
  const Backend* const backend = SamePlaceIn(policy, *context.backend);
  if (backend == nullptr) return;
  const auto treatment = TreatmentUnder(policy, *backend, context, body);
  if (!treatment) return;
  const auto other_body = BodyUnder(treatment->tool, context, body);
  if (!other_body) return;
  const CallBody& body_then = *other_body ? **other_body : body;
  const Tool& tool = treatment->tool == nullptr ? UnlistedTool() : *treatment->tool;
  const bool compares_alike = tool.ignore == ToolOf(context).ignore &&
                              PlaceOfKeyIn(tool, body_then) == PlaceOfKeyIn(ToolOf(context), body);
  const auto add = [&](const HttpRequest& request) {
    auto older = NamesOf({earlier, *backend, *treatment, request, compares_alike}, context,
                         body_then, secret, derived.args_hash);
    const bool is_other =
        older && (older->key != derived.key || older->args_hash != derived.args_hash ||
                  older->principal != derived.principal);
    if (is_other) derived.older.push_back(std::move(*older));
  };
  const KeyRule& then = KeyRuleOf(tool, *backend);
  const KeyRule& now = KeyRuleOf(ToolOf(context), *context.backend);
  const bool is_same_form = then.form.kind == now.form.kind && then.form.length == now.form.length;
  if (then.at == now.at && is_same_form) return add(context.request);
  HttpRequest request = context.request;
  for (Headers& fields : FieldsUnder(then, now, context)) {
    request.headers = std::move(fields);
    add(request);
  }
}

// What the call would have been named before, with that fingerprint of its arguments.
void AddNamesWith(const Digest& args_hash, const KeyInputs& inputs, const Recipe& recipe,
                  DerivedKey& derived) {
  AddVersion1(inputs, recipe, inputs.caller, args_hash, derived);
  const auto is_read_alike = [](const Header& field) { return IsReadAlike(field.first); };
  if (!std::ranges::all_of(inputs.request.headers, is_read_alike)) {
    AddNamesAs(FieldNames::kBefore, inputs, recipe, args_hash, derived);
    AddNamesAs(FieldNames::kEarlier, inputs, recipe, args_hash, derived);
  }
  for (const Caller::Earlier& earlier : inputs.earlier_callers) {
    const Scope scope = ScopeOfCaller(recipe.scope, earlier.name);
    OlderRecipe older;
    older.args_hash = args_hash;
    older.tool = inputs.tool_name;
    older.caller = earlier.name;
    older.key = KeyOf(inputs, scope, recipe.intent, args_hash, recipe.tenants);
    older.intent = IntentDigest(inputs, scope, recipe.intent, args_hash, recipe.tenants);
    older.principal = PrincipalOf(
        inputs.secret, earlier.name, inputs.principal, inputs.request.headers, inputs.query,
        earlier.has_token ? std::string_view(inputs.verified_field) : std::string_view());
    const bool is_other = older.key != derived.key || older.principal != derived.principal;
    if (is_other) derived.older.push_back(std::move(older));
    AddVersion1(inputs, recipe, earlier.name, args_hash, derived);
  }
}

}  // namespace

void AddOlderNames(const KeyInputs& inputs, const Recipe& recipe, std::string_view fields,
                   std::string_view order, DerivedKey& derived) {
  AddNamesWith(derived.args_hash, inputs, recipe, derived);
  const auto add_as_of = [&](std::string_view counted) {
    const Digest args_then = ArgsHash(inputs, counted);
    derived.older.push_back(
        {.key = KeyOf(inputs, recipe.scope, recipe.intent, args_then, recipe.tenants),
         .intent = IntentDigest(inputs, recipe.scope, recipe.intent, args_then, recipe.tenants),
         .args_hash = args_then,
         .tool = inputs.tool_name,
         .caller = inputs.caller,
         .principal = derived.principal});
    AddNamesWith(args_then, inputs, recipe, derived);
  };
  if (!order.empty()) add_as_of(fields);
  if (!fields.empty()) add_as_of({});
}

void AddNamesUnderEarlierPolicies(const RequestContext& context, const CallBody& body,
                                  const HmacKey& secret, DerivedKey& derived) {
  for (const EarlierPolicy& earlier : context.earlier_policies) {
    AddNamesUnder(earlier, context, body, secret, derived);
  }
}

}  // namespace recourse
