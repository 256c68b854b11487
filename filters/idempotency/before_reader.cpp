#include "filters/idempotency/before_reader.h"

#include <utility>

#include "filters/call/answers.h"
#include "filters/call/codecs.h"
#include "filters/call/snapshots.h"
#include "filters/credentials/credentials.h"
#include "policy/model/principal.h"
#include "policy/undo/put_back.h"
#include "policy/undo/tenant_fields.h"
#include "proxy/base/http/field_reach.h"

namespace recourse {
namespace {

HttpRequest WithCredentials(const RequestContext& context, HttpRequest request) {
  for (const auto& [name, value] : context.request.headers) {
    if (ReachOf(name) != FieldReach::kBackend) continue;  // nor has the call it
    const bool is_credential = IsCredentialField(name) || IsPrincipalField(name);
    if (IsOwnCredential(*context.backend, context.tool, name)) continue;
    if (is_credential && FindHeader(request.headers, name) == nullptr) {
      request.headers.emplace_back(name, value);
    }
  }
  for (const auto& [name, value] : context.credentials) SetHeader(request.headers, name, value);
  return request;
}

Event AboutCall(const RequestContext& context) {
  Event event;
  event.tool = context.tool_name;
  return event;
}

Outcome Refusal(const Unread& unread, const std::string& why) {
  return LocalOutcome(MakeProblem(unread.may_pass ? ErrorCode::kNotSent : ErrorCode::kDenied, why));
}

}  // namespace

Task<std::optional<Outcome>> BeforeReader::Read(RequestContext& context,
                                                const CallBody& body) const {
  const BeforeRule& rule = *context.tool->before;
  const CallValues values = ValuesOfCall(context, body);
  auto request = Render(rule.request, values);
  std::expected<Snapshot, Unread> read = std::unexpected(Unread());
  if (request) {
    const Headers& of_call = context.request.headers;
    CodecOf(*context.backend).KeepSession(of_call, request->headers);
    HttpRequest sent = WithCredentials(context, SnapshotRequest(*request, *context.backend));
    (void)AddTenants(of_call, {}, sent.method, sent.headers);
    // It is kept for the undo, which is not made where it lacks one of them.
    (void)AddTenants(of_call, context.tool->redact, request->method, request->headers);
    read = ReadSnapshot(rule, co_await Ask(context, std::move(sent)), false);
  } else {
    read = std::unexpected(Unread{std::string(request.error().detail()), false});
  }
  BeforeRead& came = context.before.emplace();
  if (read) {
    Snapshot planned = PlannedState(*context.tool, *read, context.request.method, values);
    CallValues known = values;
    known.before = &*read;
    NotePlaces(PlacesToPutBack(*context.tool, known), request->headers);
    came.state = StateKept{std::move(*request), std::move(*read), std::move(planned)};
    co_return std::nullopt;
  }
  came.why = "the state before it, which its undo needs, cannot be read (" + rule.request.source +
             ": " + read.error().why + ")";
  // Whoever has approved it has been told.
  const bool was_asked = rule.missing == BeforeMissing::kApprove && context.approved != 0;
  if (rule.missing == BeforeMissing::kGoOn || was_asked) co_return std::nullopt;
  if (rule.missing == BeforeMissing::kRefuse) {
    co_return Refusal(read.error(), "nothing was sent: " + came.why);
  }
  if (!context.needs_approval) context.needs_approval = came.why;
  co_return std::nullopt;
}

Task<Result<Answer>> BeforeReader::Ask(RequestContext& context, HttpRequest request) const {
  std::optional<Backend> room;
  const auto connection = upstream_.Open(CalledFor(context.tool, *context.backend, room));
  const Result<void> connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  connection->MayOpenSession();
  connection->HoldAnswerFor(context.keeper);
  co_return co_await ExchangeTraced(*connection, std::move(request),
                                    clock_.Now() + limits::kProbeTimeout,
                                    limits::kProbeAnswerBytesMax, tracing_, clock_,
                                    OwnRequest(OwnRequest::Kind::kProbe, AboutCall(context),
                                               context.policy, *context.backend, 1));
}

}  // namespace recourse
