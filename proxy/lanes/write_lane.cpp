#include "proxy/lanes/write_lane.h"

#include <utility>

#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "policy/model/override_scan.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/lanes/answer_stream.h"
#include "proxy/lanes/write_call.h"

namespace recourse {
namespace {

std::string_view ContentTypeOf(const HttpRequest& request) {
  const std::string* type = FindHeader(request.headers, "Content-Type");
  return type == nullptr ? std::string_view() : *type;
}

}  // namespace

std::optional<CallRefusal> WriteLane::Refusal(const ServedRequest& request) {
  if (request.services.draining) {
    return CallRefusal(ErrorCode::kDraining, "this process is shutting down");
  }
  std::string why = request.caller.WhyNobody();
  if (!request.route.is_guarded || why.empty()) return std::nullopt;
  return CallRefusal(ErrorCode::kCallerUnknown, std::move(why));
}

Task<bool> WriteLane::RunRead(Exchange& exchange, BodyReservation& room, std::string body) {
  ServedRequest& request = exchange.request;
  if (const auto refusal = Refusal(request)) {
    co_return co_await Refuse(exchange, refusal->code(), refusal->detail());
  }
  RequestContext context;
  FillContext(request, EndToEndFields(request.head, request.view->fields_read), context);
  context.waits.Begin(request.services.clients, exchange.client);
  context.keeper = &room;
  context.request.body = std::move(body);
  co_return co_await Check(exchange, room, context);
}

Task<bool> WriteLane::Run(Exchange& exchange) {
  ServedRequest& request = exchange.request;
  Services& services = request.services;
  const Head& head = request.head;
  if (const auto refusal = Refusal(request)) {
    co_return co_await Refuse(exchange, refusal->code(), refusal->detail());
  }
  if (head.body == BodyKind::kLength && head.content_length > limits::kWriteBodyBytesMax) {
    co_return co_await Refuse(exchange, ErrorCode::kRequestTooLarge,
                              "the body of a write may have at most 8 MiB");
  }
  BodyReservation room(services, request.Payer(), exchange.client);
  RequestContext context;
  FillContext(request, EndToEndFields(request.head, request.view->fields_read), context);
  context.waits.Begin(services.clients, exchange.client);
  context.keeper = &room;
  auto body = co_await ReadWholeBody(exchange, room);
  if (exchange.reply.is_cut()) co_return false;
  if (!body) {
    co_return co_await Refuse(exchange, body.error().code(), std::string(body.error().detail()));
  }
  context.request.body = std::move(*body);
  co_return co_await Check(exchange, room, context);
}

Task<bool> WriteLane::Check(Exchange& exchange, BodyReservation& room, RequestContext& context) {
  ServedRequest& request = exchange.request;
  Services& services = request.services;
  OverrideScan scan(ContentTypeOf(context.request));
  bool is_overridden = false;
  const auto look = [&] { is_overridden = scan.Feed(context.request.body); };
  if (!IsLarge(context)) {
    look();
  } else if (!co_await room.RunApart(look, request.worker.thread)) {
    co_return co_await Refuse(exchange, ErrorCode::kOverloaded, std::string(kNoRoomApart));
  }
  if (is_overridden) {
    co_return co_await Refuse(exchange, scan.code(), std::string(scan.reason()));
  }
  request.record.bytes_in += request.head.size + context.request.body.size();
  if (!room.BeginWrite()) {
    services.metrics->rejections.Add({{"reason", "writes"}}).Increment();
    co_return co_await Refuse(exchange, ErrorCode::kOverloaded,
                              "too many writes are being worked on");
  }
  co_return co_await Execute(exchange, room, context);
}

Task<bool> WriteLane::Execute(Exchange& exchange, BodyReservation& room, RequestContext& context) {
  ServedRequest& request = exchange.request;
  AnswerStream stream(exchange.reply, request.worker.thread.clock(), context,
                      request.services.bounds.send_timeout);
  context.relay = &stream;
  auto outcome = co_await Next(request.worker.chain)(context);
  const MonoTime decided = request.Now();
  room.LetGoOfRequest(context);
  WriteAnswer told = ToAnswer(std::move(outcome));
  if (stream.has_begun()) std::string().swap(told.response.body);  // the client has it already
  const WriteAnswer answer = room.Fit(std::move(told));
  NoteWrite(request, context, answer);
  request.record.overhead = decided - request.began - request.record.with_backend;
  if (stream.has_begun()) co_return co_await EndStream(exchange, stream, answer, context.answers);

  Reactor& reactor = request.worker.thread.reactor();
  const bool together = answer.response.body.size() <= kTogetherBytesMax;
  if (together) co_await FlushAtTurnEnd(reactor);
  const bool is_last = answer.error && EndsConnection(*answer.error);
  exchange.reply.Linger(is_last);
  const bool sent =
      co_await exchange.reply.Send(answer.response, request.head.keep_alive && !is_last);
  const bool kept =
      co_await EndWrite(exchange, sent, answer.error ? std::nullopt : context.answers);
  if (together) co_await FlushAtTurnEnd(reactor);
  co_return kept;
}

// The head has said yes already: what is no answer of the backend with a durable outcome shows only
// by the missing end.
Task<bool> WriteLane::EndStream(Exchange& exchange, AnswerStream& stream, const WriteAnswer& answer,
                                std::optional<AttemptId> answers) {
  using How = ClientStream::How;
  RequestRecord& record = exchange.request.record;
  record.status = stream.status();
  const bool taken = co_await stream.End(answer.error ? How::kCut : How::kWhole);
  record.client_gone = !taken;
  const bool is_cut = !taken || answer.error.has_value();
  if (is_cut) exchange.reply.Cut();
  co_return co_await EndWrite(exchange, !is_cut && exchange.reply.keeps(),
                              answer.error ? std::nullopt : answers);
}

}  // namespace recourse
