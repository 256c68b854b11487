#include "filters/key/operation_request.h"

#include <algorithm>
#include <array>

#include "filters/call/client_key.h"
#include "filters/call/codecs.h"
#include "filters/call/flow_name.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/stored_call.h"
#include "filters/call/stored_request.h"
#include "filters/call/upstream_request.h"
#include "filters/key/ambiguity_check.h"
#include "filters/key/older_names.h"
#include "policy/model/approval_need.h"
#include "policy/undo/put_back.h"
#include "policy/undo/tenant_fields.h"
#include "policy/undo/undo_class.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

constexpr std::string_view kNotOneReading = "what the policy reads from the call has two readings";
constexpr std::string_view kForbidden = "the policy forbids what the call asks for";
constexpr std::string_view kKeyMeansAnother =
    "the key in the call's body or query means another call to the backend already";

// Takes what of the key goes into the event alone.
void FillEvent(const RequestContext& context, DerivedKey& key, const CallBody& named,
               Event& event) {
  event.key = key.key;
  if (key.spans_traces || key.is_windowed) event.intent = key.intent;
  event.args_hash = key.args_hash;
  // What humans approved is its agent's already; who sends it sees all.
  event.principal = context.approved != 0 ? kNoPrincipal : key.principal;
  event.resource = key.resource;
  event.stands = std::move(key.stands);
  event.undo_class = UndoClassOf(ToolOf(context));
  event.tool = context.tool_name;
  event.backend = context.backend->name;
  event.caller = context.caller;
  event.trace_id = context.trace.trace_id;
  event.dedupe_domain = DedupeDomain(*context.backend, KeyOf(context));
  event.policy_version = context.policy == nullptr ? std::string() : context.policy->version;
  NameCall(context.request, context.path, named, event);
}

void AddProbe(const RequestContext& context, CallValues values, const DerivedKey& key,
              Event& event) {
  const Tool& tool = ToolOf(context);
  if (!tool.settle) return;
  values.key =
      tool.settle->mark.exists() ? KeyPlaceholder() : key.client_key.value_or(KeyPlaceholder());
  auto probe = Render(tool.settle->request, values);
  const Headers& of_call = context.request.headers;
  if (probe && !AddTenants(of_call, tool.redact, probe->method, probe->headers)) {
    probe = Malformed(kTenantRedacted);
  }
  if (probe) {
    CodecOf(*context.backend).KeepSession(of_call, probe->headers);
    // An undo that sets them back may have to be made without the call.
    if (!tool.before) NotePlaces(PlacesToPutBack(tool, values), probe->headers);
    event.settle = std::move(*probe);
  } else {
    event.detail = "the settle request cannot be made: ";
    event.detail += probe.error().detail();
  }
}

KeyInputs InputsOf(const RequestContext& context, const CallBody& body, const HmacKey& secret) {
  static const PrincipalRule kUsual;
  return {secret,
          ToolOf(context),
          context.tool_name,
          context.caller,
          context.verified_field,
          context.earlier_callers,
          context.backend->name,
          context.policy == nullptr ? kUsual : context.policy->principal,
          context.trace,
          context.request,
          context.path,
          context.captures,
          context.query,
          body,
          context.tool == nullptr ? &context.backend->undoes : &context.tool->undoes};
}

// The request is kept, to be sent when somebody has approved it.
void AddApproval(const RequestContext& context, const Tool& tool, NewOperation& operation) {
  const ApprovalRule& rule = *tool.approval;
  ApprovalAsk ask{.needed = rule.needs,
                  .by = rule.by,
                  .expires = rule.expires,
                  .policy = context.policy->digest,
                  .why = context.needs_approval.value_or(std::string()),
                  .may_go_on = tool.ignore.empty()};
  const HttpRequest& request = context.request;
  const bool asks_about_repeats = context.approved == 0 && AsksAboutRepeats(tool);
  if (!context.needs_approval && !asks_about_repeats) return;
  const RenderedRequest kept{request.method, request.target, request.headers, request.body};
  if (asks_about_repeats) {
    operation.suspicion = {.ask = ask};
    if (CanBeKept(kept)) operation.suspicion->request = kept;
  }
  if (!context.needs_approval) return;
  operation.approval = std::move(ask);
  operation.event.request = kept;
}

// `named` says what the call is called.
void FillOperation(const RequestContext& context, FlowName flow, const CallBody& named,
                   PreparedCall& call) {
  const Tool& tool = ToolOf(context);
  NewOperation& operation = call.operation;
  FillEvent(context, call.key, named, operation.event);
  operation.event.flow = std::move(flow.text);
  operation.event.is_step = context.guarded;
  if (operation.event.is_step) call.shares_flow = flow.is_shared;
  const Flow* const declared = context.policy != nullptr && context.tool != nullptr
                                   ? context.policy->FlowOf(*context.tool)
                                   : nullptr;
  if (operation.event.is_step && declared != nullptr) {
    operation.event.flow_name = declared->name;
    operation.event.flow_has_deadline = declared->deadline.has_value();
  }
  AddProbe(context, ValuesOfCall(context, *call.body), call.key, operation.event);
  operation.named = call.key.named_key;
  operation.older = std::move(call.key.older);
  operation.is_retry_only = call.key.is_retry_only;
  operation.has_identity = call.key.has_identity;
  operation.across_window = tool.across_window;
  operation.may_be_superseded = !call.key.is_named;
  if (call.key.is_windowed) {
    operation.dedupe_window = call.key.is_retry_only ? tool.across_window : tool.dedupe_window;
    operation.event.window_ms = operation.dedupe_window->count();
  }
  // A call without a trace may be the repeat of one that had one.
  const bool lacks_trace = call.key.is_windowed && tool.scope.kind == ScopeRule::Kind::kTrace;
  // A key of ours that comes back may name an operation that has another one in its place by now.
  const bool may_be_another =
      call.key.spans_traces || lacks_trace || call.key.named_key.has_value();
  operation.across_traces = may_be_another ? tool.across_traces : AcrossTraces::kNever;
  // A part of an identity is no proof that the rest may differ.
  const bool is_sure = !call.key.lacks_place || tool.on_mismatch != OnMismatch::kReplay;
  operation.on_mismatch = is_sure ? tool.on_mismatch : OnMismatch::kReject;
  if (tool.failed_ttl > Millis(0)) operation.failed_ttl = tool.failed_ttl;
  operation.refusals_are_free = true;
  if (context.policy != nullptr) operation.quota = context.policy->quotas.Of(context.caller);
  operation.attempts_max = limits::kAttemptsPerOperationMax;
  operation.approved = context.approved;
  if (context.approved != 0) operation.approved_key = context.approved_key;
  if (context.policy != nullptr) operation.policy_in_force = context.policy->digest;
  if (tool.approval) AddApproval(context, tool, operation);
}

}  // namespace

const Tool& ToolOf(const RequestContext& context) {
  return context.tool == nullptr ? UnlistedTool() : *context.tool;
}

Result<void> PrepareCall(const RequestContext& context, const HmacKey& secret, PreparedCall& call) {
  auto body = ReadingOf(context);
  if (!body) return std::unexpected(body.error());
  call.body = std::move(*body);
  auto key = DeriveKey(InputsOf(context, *call.body, secret));
  if (!key) return std::unexpected(key.error());
  call.key = std::move(*key);
  AddNamesUnderEarlierPolicies(context, *call.body, secret, call.key);
  AddSelection(*call.body, secret, call.key);
  if (context.key_is_taken && !call.body->placed_key.empty()) {
    return std::unexpected(Error(ErrorCode::kInvalidKey, kKeyMeansAnother));
  }
  if (context.key_is_taken) call.key.client_key.reset();
  const auto objection =
      ObjectionTo(ToolOf(context), context.request, *call.body, context.query, call.key.is_named);
  if (objection) return std::unexpected(Error(objection->code, kNotOneReading));
  if (WhyForbidden(ToolOf(context), ValuesOfCall(context, *call.body))) {
    return std::unexpected(Error(ErrorCode::kDenied, kForbidden, Delivery::kNotSent));
  }
  if (const auto why = WhyUnwritten(context, *call.body); !why.empty()) {
    return std::unexpected(Error(ErrorCode::kInvalidKey, why));
  }
  auto flow = FlowOf(context, *call.body);
  if (!flow) return std::unexpected(flow.error());
  FillOperation(context, std::move(*flow), *call.body, call);
  // Hardly any call names a key to a backend that knows none; those need no word of it.
  const KeyRule& rule = KeyOf(context);
  if (call.key.client_key) {
    const std::string* const field = FindHeader(context.request.headers, "Idempotency-Key");
    call.operation.event.key_field = field != nullptr ? *field : QuotedKey(*call.key.client_key);
  } else if (rule.at.exists()) {
    call.operation.event.key_field.emplace();
  }
  // A token that was renewed may be somebody else's to the backend, and the key with it. A resend
  // of an approved call would be a second use of its approval.
  const bool finds_key = rule.is_accounts || context.verified_field.empty();
  call.operation.may_resend = rule.at.exists() && finds_key && !context.needs_approval;
  call.operation.key_lives = rule.lives;
  call.operation.new_key_after_failure = rule.new_after_failure;
  return {};
}

void KeepRequest(const RequestContext& context, PreparedCall& call) {
  const Tool& tool = ToolOf(context);
  if (!KeyOf(context).at.exists() || tool.settle) return;
  Event& event = call.operation.event;
  if (context.request.body.size() <= limits::kStoredRequestBodyBytesMax) {
    const std::string& key = call.key.client_key.value_or(KeyPlaceholder());
    event.request = StoredRequest(tool, UpstreamRequest(context, *call.body, key));
  }
  event.request_left_out = !event.request;
}

PreparedCall PrepareLoggedOnly(const RequestContext& context, const HmacKey& secret,
                               Random& random) {
  PreparedCall call;
  call.body = std::make_shared<const CallBody>(RawCallBody(context.request));
  std::array<unsigned char, 32> nonce{};
  random.Fill(nonce);
  call.key = UniqueKey(InputsOf(context, *call.body, secret),
                       std::string(reinterpret_cast<const char*>(nonce.data()), nonce.size()));
  const bool is_message = IsEndpointMessage(*context.backend, context.request);
  const auto named = is_message ? ReadingOf(context) : call.body;
  FillOperation(context, FlowOf(context, *call.body).value_or(FlowName{context.trace.trace_id}),
                named ? **named : CallBody(), call);
  return call;
}

bool IsForbidding(const Error& error) { return error.detail() == kForbidden; }

std::string RefusalDetail(const RequestContext& context, const Error& error) {
  const Tool& tool = ToolOf(context);
  if (error.detail() == kNotOneReading) {
    const auto reading = ReadingOf(context);
    const CallBody none;
    const CallBody& body = reading ? **reading : none;
    const auto named = ReadNamedIntent(context.request.headers, body);
    const auto objection =
        ObjectionTo(tool, context.request, body, context.query, named && named->intent);
    return objection ? objection->detail : std::string(error.detail());
  }
  if (IsForbidding(error)) {
    const auto body = ReadingOf(context);
    const auto why = body ? WhyForbidden(tool, ValuesOfCall(context, **body)) : std::nullopt;
    return why.value_or(std::string(error.detail()));
  }
  if (error.code() != ErrorCode::kKeyRequired) return std::string(error.detail());
  const bool lacks_trace = tool.trace_required && !context.trace.from_client;
  return "the tool " + context.tool_name + " needs " +
         (lacks_trace ? "a valid traceparent header, or an Idempotency-Key"
                      : ScopeRequirement(tool.scope)) +
         ", which the call does not carry";
}

}  // namespace recourse
