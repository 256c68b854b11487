// Writes are read whole, run through the filter chain, and answered from what was recorded.
#include <algorithm>

#include "filters/call/answers.h"
#include "filters/call/client_key.h"
#include "policy/model/override_scan.h"
#include "proxy/base/crash_point.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/held.h"
#include "proxy/exchange/request_head.h"
#include "proxy/exchange/session.h"
#include "proxy/lanes/answer_stream.h"
#include "proxy/net/message/body_pace.h"
#include "proxy/telemetry/attempts.h"

namespace recourse {
namespace {

std::string_view ContentTypeOf(const HttpRequest& request) {
  const std::string* type = FindHeader(request.headers, "Content-Type");
  return type == nullptr ? std::string_view() : *type;
}

std::string_view ResultLabel(const RequestContext& context, std::optional<ErrorCode> error) {
  if (context.replayed) return "replayed";
  return error ? FactsOf(*error).slug : std::string_view("new");
}

// A line or a member in each dozen bytes takes its time.
Task<bool> FeedInTurns(OverrideScan& scan, std::string_view body, Executor& executor) {
  while (!body.empty()) {
    const std::string_view piece = body.substr(0, limits::kRelayBufferBytes / 2);
    if (scan.Feed(piece)) co_return true;
    body.remove_prefix(piece.size());
    co_await NextTurn(executor);
  }
  co_return false;
}

}  // namespace

Task<bool> Session::ServeWrite(const RouteMatch& match, std::string_view query, bool guarded) {
  if (services_.draining) {
    co_return co_await Refuse(ErrorCode::kDraining, "this process is shutting down");
  }
  if (std::string why = WhyNobody(); guarded && !why.empty()) {
    co_return co_await Refuse(ErrorCode::kCallerUnknown, std::move(why));
  }
  if (head_.body == BodyKind::kLength && head_.content_length > limits::kWriteBodyBytesMax) {
    co_return co_await Refuse(ErrorCode::kRequestTooLarge,
                              "the body of a write may have at most 8 MiB");
  }
  Held held(services_, Payer(), *this);
  RequestContext context;
  FillContext(match, query, guarded, context);
  context.waits.Begin(services_.clients, *this);
  context.keeper = &held;
  const bool keep = head_.keep_alive;
  auto body = co_await ReadWriteBody(held);
  if (cut_) co_return false;
  if (!body) {
    linger_ = true;
    co_return co_await Refuse(body.error().code(), std::string(body.error().detail()));
  }
  if (in_.begin == in_.end) in_.memory.reset();
  context.request.body = std::move(*body);
  OverrideScan scan(ContentTypeOf(context.request));
  bool is_overridden = false;
  if (context.request.body.size() < limits::kLargeBodyBytes) {
    is_overridden = scan.Feed(context.request.body);
  } else {
    is_overridden = co_await FeedInTurns(scan, context.request.body, worker_.thread);
  }
  if (is_overridden) {
    co_return co_await Refuse(ErrorCode::kMalformedRequest, std::string(scan.reason()));
  }
  record_.bytes_in += head_.size + context.request.body.size();
  if (!held.BeginWrite()) {
    services_.metrics->rejections.Add({{"reason", "writes"}}).Increment();
    co_return co_await Refuse(ErrorCode::kOverloaded, "too many writes are being worked on");
  }

  AnswerStream stream(client_, worker_.thread.clock(), context,
                      {services_.bounds.send_timeout, head_.minor == 0, keep && !IsLast()});
  context.relay = &stream;
  auto outcome = co_await Next(worker_.chain)(context);
  const MonoTime decided = Now();
  held.LetGoOfRequest(context);
  WriteAnswer told = ToAnswer(std::move(outcome));
  if (stream.has_begun()) std::string().swap(told.response.body);  // the client has it already
  const WriteAnswer answer = held.Fit(std::move(told));
  NoteWrite(context, answer);
  record_.overhead = decided - started_ - record_.with_backend;
  if (stream.has_begun()) co_return co_await EndStream(stream, answer, context.answers);

  const bool together = answer.response.body.size() <= kTogetherBytesMax;
  if (together) co_await EndOfTurn(worker_.thread.poller());
  linger_ = answer.error && EndsConnection(*answer.error);
  const bool kept = co_await SendAnswer(answer.response, keep && !linger_);
  // A client that was gone by then has not been answered: what it sends next under another trace is
  // a retry.
  record_.client_gone = record_.client_gone || !co_await HasTaken();
  if (!record_.client_gone && context.answers && !answer.error) {
    MarkAnswered(*context.answers);
  }
  RC_CRASH_POINT("k14");
  if (together) co_await EndOfTurn(worker_.thread.poller());
  co_return kept && !(record_.client_gone && HasLeft());
}

// The head has said yes already: what is no answer of the backend with a durable outcome shows only
// by the missing end.
Task<bool> Session::EndStream(AnswerStream& stream, const WriteAnswer& answer,
                              std::optional<AttemptId> answers) {
  using How = ClientStream::How;
  record_.status = stream.status();
  const bool taken = co_await stream.End(answer.error ? How::kCut : How::kWhole);
  record_.bytes_out += stream.bytes();
  record_.client_gone = !taken || !co_await HasTaken();
  cut_ = !taken || answer.error.has_value();
  if (cut_ && stream.ends_with_connection()) ShowCut();
  if (!record_.client_gone && answers && !answer.error) MarkAnswered(*answers);
  RC_CRASH_POINT("k14");
  co_return !cut_ && stream.keeps() && !(record_.client_gone && HasLeft());
}

WriteAnswer Session::ToAnswer(Result<Outcome> outcome) {
  if (!outcome) return MakeProblem(outcome.error().code(), outcome.error().detail());
  if (outcome->local) return std::move(*outcome->local);
  WriteAnswer answer;
  answer.response = std::move(outcome->answer.response);
  return answer;
}

void Session::FillContext(const RouteMatch& match, std::string_view query, bool guarded,
                          RequestContext& context) {
  context.policy = view_->policy;
  context.backend = match.backend;
  context.tool = match.tool;
  context.guarded = guarded;
  context.tool_name = match.tool != nullptr ? match.tool->name : "unlisted." + match.backend->name;
  context.caller = caller_;
  if (view_->policy->callers.names_any()) {
    context.verified_field = who_.verified_field;
    context.earlier_callers = who_.earlier;
  }
  context.came_as_backend = record_.came_by == CameBy::kReverse;
  context.path = std::string(match.path);
  context.request.method = std::string(head_.method);
  context.request.target = match.backend->base_path + std::string(match.sent) + std::string(query);
  context.request.headers = EndToEndFields(head_);
  AdoptKeyField(match.backend->key_header, context.request.headers);
  context.query = ParsePairs(query.empty() ? query : query.substr(1));
  for (std::size_t i = 0; i < match.capture_count; ++i) {
    std::string value;
    PercentDecode(match.captures[i].value, value);
    context.captures.emplace_back(std::string(match.captures[i].name), std::move(value));
  }
  if (!span_.trace.view().empty()) {
    context.trace = {std::string(span_.trace.view()), {}, span_.flags, span_.is_clients};
    context.span_id = std::string(span_.id.view());
    context.is_traced = span_.is_on;
  }
  context.pod_flow = &services_.pod_flow;
  context.executor = &worker_.thread;
  context.timer = &worker_.thread;
}

void Session::NoteWrite(const RequestContext& context, const WriteAnswer& answer) {
  NoteAttempts(context, worker_.span_ids, record_);
  record_.replayed = context.replayed;
  record_.outcome = OutcomeOf(answer.response);
  if (answer.error) record_.error = FactsOf(*answer.error).slug;
  record_.trace_id.Set(context.trace.trace_id);
  record_.span_id.Set(context.trace.parent_id);
  if (const auto* event = FindHeader(answer.response.headers, "Recourse-Event")) {
    record_.event = *event;
  }
  if (context.ref_missing) {
    services_.metrics->refs_missing.Add({{"tool", context.tool_name}}).Increment();
  }
  if (context.shares_flow) services_.metrics->CountFlow(*context.shares_flow);
  if (context.asks_for_state) {
    const std::string tool = context.tool != nullptr ? context.tool->name : "unlisted";
    services_.metrics->state_replays.Add({{"tool", tool}}).Increment();
  }
  view_->metrics.CountKey(context.tool, ResultLabel(context, answer.error));
}

std::unexpected<Error> Session::NoRoom() {
  services_.metrics->rejections.Add({{"reason", "memory"}}).Increment();
  return std::unexpected(Error(ErrorCode::kOverloaded, "calls hold all the memory that they may"));
}

std::string Session::Payer() const { return std::to_string(place_.peer()) + " " + identity_; }

// Reads the whole body; fails with kRequestTooLarge, kOverloaded when there is no room for what has
// come of it, kRequestTimeout (also when the client broke off) or kMalformedRequest. With cut_ set
// the client cannot be told so.
Task<Result<std::string>> Session::ReadWriteBody(Held& held) {
  BodyDecoder decoder(head_.body, head_.content_length, BodyDecoder::Of::kRequest);
  const std::uint64_t expected = head_.body == BodyKind::kLength ? head_.content_length : 0;
  const bool expect_continue = head_.expect_continue;
  const MonoTime end = Now() + limits::kWriteBodyTotalTimeout;
  in_.Consume(head_.size);
  const bool body_began = in_.begin != in_.end;
  BodyPace pace(services_.bounds.body_timeout);
  if (!held.Hold(HeldFor::kCall, limits::kCallBytes)) co_return NoRoom();
  std::string body;
  body.reserve(expected);  // address space: memory is taken as the body arrives
  for (bool first = true;; first = false) {
    const auto piece = decoder.Decode(in_);
    if (!held.Hold(HeldFor::kBody, body.size() + piece.data.size())) co_return NoRoom();
    body.append(piece.data);
    if (body.size() > limits::kWriteBodyBytesMax ||
        decoder.announced() > limits::kWriteBodyBytesMax - body.size()) {
      co_return std::unexpected(
          Error(ErrorCode::kRequestTooLarge, "the body of a write may have at most 8 MiB"));
    }
    if (piece.end == BodyDecoder::End::kComplete) co_return body;
    if (piece.end != BodyDecoder::End::kMore) co_return std::unexpected(piece.error);
    if (first && expect_continue && !body_began && !co_await Continue100()) {
      co_return std::unexpected(BrokenBody(client_));
    }
    const MonoTime began = Now();
    client_.deadline.Arm(std::min(end, pace.Until(began)));
    const std::size_t size =
        co_await ReadSome(client_, in_.free_space(), decoder.ReadLimit(in_.free_size()));
    if (size == 0) co_return std::unexpected(BrokenBody(client_));
    pace.Took(began, Now(), size);
    client_.deadline.Disarm();
    in_.end += size;
  }
}

}  // namespace recourse
