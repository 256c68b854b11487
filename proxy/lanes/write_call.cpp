#include "proxy/lanes/write_call.h"

#include "filters/call/answers.h"
#include "filters/call/client_key.h"
#include "filters/call/upstream_request.h"
#include "proxy/base/crash_point.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/telemetry/attempt_records.h"
#include "proxy/telemetry/metrics.h"

namespace recourse {
namespace {

std::string_view ResultLabel(const RequestContext& context, std::optional<ErrorCode> error) {
  if (context.replayed) return kReplayed;
  if (context.is_forbidden) return "forbidden";
  return error ? FactsOf(*error).slug : std::string_view("new");
}

Error NoRoom(Services& services) {
  services.metrics->rejections.Add({{"reason", "memory"}}).Increment();
  return Error(ErrorCode::kOverloaded, "calls hold all the memory that they may");
}

// Who is known already is not verified again.
void AddEarlierPolicies(const ServedRequest& request, RequestContext& context) {
  for (const auto& each : request.view->earlier) {
    auto policy = each.lock();
    if (policy == nullptr) continue;
    if (NameAlike(policy->callers, request.view->policy->callers)) {
      context.earlier_policies.push_back(
          {std::move(policy), context.caller, context.verified_field});
      continue;
    }
    Caller caller =
        request.caller.By(policy->callers, request.head, request.services.clock->WallNow());
    // Who was named otherwise then is named now, as where a field got another name.
    if (!caller.problem.empty()) {
      context.earlier_policies.push_back(
          {std::move(policy), context.caller, context.verified_field});
      continue;
    }
    context.earlier_policies.push_back(
        {std::move(policy), std::move(caller.name), std::move(caller.verified_field)});
  }
}

// Its client is told why; what is left of the body is taken after that.
std::unexpected<Error> NotRead(Exchange& exchange, const Error& why) {
  if (!exchange.reply.is_cut()) exchange.reply.Linger(true);
  return std::unexpected(why);
}

}  // namespace

WriteAnswer ToAnswer(Result<Outcome> outcome) {
  if (!outcome) return MakeProblem(outcome.error().code(), outcome.error().detail());
  if (outcome->local) return std::move(*outcome->local);
  WriteAnswer answer;
  answer.response = std::move(outcome->answer.response);
  return answer;
}

void FillContext(ServedRequest& request, Headers fields, RequestContext& context) {
  const RouteMatch& match = request.route.match;
  const std::string_view query = request.route.query;
  context.policy = request.view->policy;
  context.backend = match.backend;
  context.tool = match.tool;
  context.guarded = request.route.is_guarded;
  context.tool_name = match.tool != nullptr ? match.tool->name : "unlisted." + match.backend->name;
  context.caller = request.caller.name();
  if (request.view->policy->callers.names_any()) {
    context.verified_field = request.caller.facts().verified_field;
  }
  context.earlier_callers = request.caller.Earlier(request.view->policy->callers);
  AddEarlierPolicies(request, context);
  context.came_as_backend = request.record.ingress_mode == IngressMode::kReverse;
  context.path = std::string(match.path);
  context.request.method = std::string(request.head.method);
  context.request.target = match.backend->base_path + std::string(match.sent) + std::string(query);
  context.request.headers = std::move(fields);
  AdoptKeyField(KeyOf(context), context.request.headers);
  context.query = ParsePairs(query.empty() ? query : query.substr(1));
  for (std::size_t i = 0; i < match.capture_count; ++i) {
    std::string value;
    PercentDecode(match.captures[i].value, value);
    context.captures.emplace_back(std::string(match.captures[i].name), std::move(value));
  }
  if (!request.trace.trace.view().empty()) {
    context.trace = {
        std::string(request.trace.trace.view()), {}, request.trace.flags, request.trace.is_clients};
    context.span_id = std::string(request.trace.id.view());
    context.is_traced = request.trace.is_on;
  }
  context.pod_flow = &request.services.pod_flow;
  context.executor = &request.worker.thread;
  context.timer = &request.worker.thread;
}

void NoteWrite(ServedRequest& request, const RequestContext& context, const WriteAnswer& answer) {
  NoteAttempts(context, request.worker.span_ids, request.record);
  request.record.replayed = context.replayed;
  request.record.outcome = OutcomeOf(answer.response);
  if (answer.error) request.record.error = FactsOf(*answer.error).slug;
  request.record.trace_id.Set(context.trace.trace_id);
  request.record.span_id.Set(context.trace.parent_id);
  if (const auto* event = FindHeader(answer.response.headers, "Recourse-Event")) {
    request.record.event = *event;
  }
  if (const auto* flow = FindHeader(answer.response.headers, "Recourse-Flow")) {
    request.record.flow = FlowLabel(*context.policy, *flow, context.trace.trace_id);
  }
  request.record.operation = context.operation;
  request.record.has_tool_error = context.has_tool_error;
  if (context.ref_missing) {
    request.services.metrics->refs_missing.Add({{"tool", context.tool_name}}).Increment();
  }
  if (context.shares_flow) request.services.metrics->CountFlow(*context.shares_flow);
  if (context.asks_for_state) request.view->metrics.CountStateReplay(context.tool);
  request.view->metrics.CountKey(context.tool, ResultLabel(context, answer.error));
}

Task<Result<std::string>> ReadWholeBody(Exchange& exchange, BodyReservation& room) {
  const ServedRequest& request = exchange.request;
  const Head& head = request.head;
  const std::uint64_t expected = head.body == BodyKind::kLength ? head.content_length : 0;
  const MonoTime end = request.Now() + limits::kWriteBodyTotalTimeout;
  auto piece = exchange.body.Begin();
  if (!room.Hold(HeldFor::kCall, limits::kCallBytes)) {
    co_return NotRead(exchange, NoRoom(request.services));
  }
  std::string body;
  body.reserve(expected);  // address space: memory is taken as the body arrives
  for (;;) {
    if (!room.Hold(HeldFor::kBody, body.size() + piece.data.size())) {
      co_return NotRead(exchange, NoRoom(request.services));
    }
    body.append(piece.data);
    if (body.size() > limits::kWriteBodyBytesMax ||
        exchange.body.announced() > limits::kWriteBodyBytesMax - body.size()) {
      co_return NotRead(exchange, Error(ErrorCode::kRequestTooLarge,
                                        "the body of a write may have at most 8 MiB"));
    }
    if (piece.end == BodyDecoder::End::kComplete) break;
    if (piece.end != BodyDecoder::End::kMore) co_return NotRead(exchange, piece.error);
    if (exchange.body.is_awaited() && !co_await exchange.body.Ask()) {
      co_return NotRead(exchange, Error(ErrorCode::kMalformedRequest, "its client has left"));
    }
    piece = co_await exchange.body.Read(end);
  }
  exchange.body.Drop();
  co_return body;
}

Task<Result<std::string>> ReadEndpointBody(Exchange& exchange, BodyReservation& room,
                                           std::string_view too_large) {
  const Head& head = exchange.request.head;
  if (head.body == BodyKind::kLength && head.content_length > limits::kWriteBodyBytesMax) {
    co_return std::unexpected(Error(ErrorCode::kRequestTooLarge, too_large));
  }
  // Reading the body overwrites the head, and what it says is needed after that.
  exchange.body.KeepHead();
  exchange.request.route.query = QueryOf(head);
  co_return co_await ReadWholeBody(exchange, room);
}

// A client that was gone by the time its answer was there has not been answered: what it sends next
// under another trace is a retry.
Task<bool> EndWrite(Exchange& exchange, bool kept, std::optional<AttemptId> answered,
                    const MarkTaken& mark) {
  RequestRecord& record = exchange.request.record;
  record.client_gone = record.client_gone || !co_await exchange.client.HasTaken();
  if (!record.client_gone && answered) {
    if (!mark) {
      exchange.client.MarkAnswered(*answered);
    } else {
      record.client_gone = !mark(exchange.client, *answered);
    }
  }
  RC_CRASH_POINT("k14");
  co_return kept && !(record.client_gone && exchange.client.HasLeft());
}

}  // namespace recourse
