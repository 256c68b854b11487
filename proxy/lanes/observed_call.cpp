#include "proxy/lanes/observed_call.h"

#include <utility>

#include "filters/call/traceparent.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/lanes/write_call.h"

namespace recourse {

void StartObservation(ServedRequest& request, const std::optional<CallRefusal>& refusal) {
  request.observation = Observation::Start(request.worker, request.view, request.Payer());
  if (!request.observation) return;
  Observation& observation = *request.observation;
  const Head& head = request.head;
  FillContext(request, EndToEndFields(request.head, request.view->fields_read),
              observation.context());
  if (auto trace = ParseTraceparent(head.traceparent)) {
    observation.context().trace = std::move(*trace);
  }
  if (refusal) {
    observation.Refuse(*refusal);
  } else if (head.body == BodyKind::kLength && head.content_length > limits::kWriteBodyBytesMax) {
    observation.Refuse(
        CallRefusal(ErrorCode::kRequestTooLarge, "the body of a write may have at most 8 MiB"));
  }
}

void StartTap(ServedRequest& request) {
  Services& services = request.services;
  if (services.traffic == nullptr) return;
  request.tap = std::make_unique<TrafficTap>(services, request.Payer());
  const RouteMatch& match = request.route.match;
  SeenCall& call = request.tap->call();
  call.wall_ms = ToUnixMillis(services.clock->WallNow());
  call.backend = match.backend->name;
  call.method = request.head.method;
  if (match.tool != nullptr) call.tool = match.tool->name;
  call.caller = request.caller.name();
  if (const auto trace = ParseTraceparent(request.head.traceparent)) {
    call.trace_id = trace->trace_id;
  }
  call.path = request.route.path;
  call.query = request.route.query;
  request.tap->MeetHead(request.head);
}

bool TakeObserved(ServedRequest& request, const BodyDecoder::Piece& piece) {
  request.observation->TakeRequest(piece);
  return request.route.judge != nullptr && piece.end == BodyDecoder::End::kComplete;
}

bool ObserveAs(ServedRequest& request, const Tool* tool, Effect effect) {
  RequestContext& context = request.observation->context();
  if (effect == Effect::kRead) {
    const auto observed = std::exchange(request.observation, nullptr);
    if (observed->refusal()) {
      NoteRefusal(request, observed->context().backend->endpoint, *observed->refusal());
    }
    return false;
  }
  context.tool = tool;
  if (tool != nullptr) {
    context.tool_name = tool->name;
    context.guarded = true;
  }
  if (const std::string why = request.caller.WhyNobody(); context.guarded && !why.empty()) {
    request.observation->Refuse(CallRefusal(ErrorCode::kCallerUnknown, why));
  }
  return true;
}

void NoteRefusal(ServedRequest& request, std::string_view path, const CallRefusal& refusal) {
  RequestRecord& record = request.record;
  const bool is_read = record.effect == "read";
  record.verdict = NameOf(ObserveVerdict::kWouldRefuse);
  record.reason = std::string(FactsOf(refusal.code()).slug) + ": " + refusal.detail();
  request.worker.refused.Count(*record.backend, is_read ? Effect::kRead : Effect::kWrite,
                               record.method.view(), path, record.reason);
  request.services.metrics->CountRefusalToCome(record.effect, record.reason);
}

void NoteFormOverride(ServedRequest& request, std::string_view reason) {
  const RequestRecord& record = request.record;
  const CallRefusal refusal(ErrorCode::kMalformedRequest, std::string(reason));
  if (request.observation) {
    request.observation->Refuse(refusal);
  } else if (record.reason.empty()) {
    // The head that the path is of may be read over.
    NoteRefusal(request, record.tool != nullptr ? record.tool->patterns.front() : "/", refusal);
  }
}

}  // namespace recourse
