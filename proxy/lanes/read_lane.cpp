// Reads stream both ways, piece by piece, through at most one buffer per direction.
#include "filters/call/answers.h"
#include "proxy/exchange/head_judgement.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/read_exchange.h"
#include "proxy/net/message/body_pace.h"

namespace recourse {
namespace {

constexpr std::uint64_t kDroppedFromClient =
    Bit(FieldId::kHost) | Bit(FieldId::kExpect) | Bit(FieldId::kForwarded) |
    Bit(FieldId::kRecourseOwn) | Bit(FieldId::kRecourseIntent) | Bit(FieldId::kRecourseFlow) |
    Bit(FieldId::kRecourseSession);
// Observe mode leaves everything else as it came.
constexpr std::uint64_t kDroppedInObserveMode = Bit(FieldId::kHost) | Bit(FieldId::kExpect);

constexpr std::uint64_t kMaxForwardsBit = Bit(FieldId::kMaxForwards);

std::string_view ContentTypeOf(const Head& head) {
  if (!head.Has(FieldId::kContentType)) return {};
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id == FieldId::kContentType) return head.fields[i].value;
  }
  return {};
}

// The request is all that came. Then it takes the buffer that it came in along, and is rendered
// into what is free behind it: in a crowd that waits for answers each needs a page less.
bool IsAlone(const ReadBuffer& in, const Head& head) {
  const std::size_t body = in.unread().size() - head.size;
  const bool is_whole = head.body == BodyKind::kNone
                            ? body == 0
                            : head.body == BodyKind::kLength && body == head.content_length;
  return is_whole && in.end <= limits::kRelayBufferBytes / 2;
}

bool CarriesContent(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

// A read may be sent again while no byte of an answer came: its effect is none by policy.
bool MayRetry(const Error& error, bool whole, int attempts) {
  return whole && error.code() == ErrorCode::kBackendReset && attempts < limits::kReadAttemptsMax;
}

}  // namespace

Task<bool> Session::RelayRead(const RouteMatch& match, std::string_view query, McpRead* mcp) {
  ReadExchange exchange(match, head_, ContentTypeOf(head_),
                        is_observing_    ? limits::kObservedPatience
                        : mcp != nullptr ? limits::kWriteTimeout
                                         : limits::kReadFirstByteTimeout);
  const bool takes_along = mcp == nullptr && IsAlone(in_, head_);
  if (takes_along) {
    exchange.request_room = {in_.free_space(), in_.free_size()};
  } else {
    exchange.head_memory = worker_.thread.buffers().Take();
    exchange.request_room = {exchange.head_memory.get(), limits::kRelayBufferBytes};
  }
  if (!RenderReadHead(exchange, match, query)) {
    co_return co_await Refuse(ErrorCode::kHeaderTooLarge, "the request's head cannot be forwarded");
  }
  exchange.mcp = mcp;
  if (mcp == nullptr) in_.Consume(head_.size);
  const bool body_began = in_.begin != in_.end;
  exchange.first = mcp == nullptr ? exchange.request_body.Decode(in_)
                                  : BodyDecoder::Piece{mcp->body, BodyDecoder::End::kComplete};
  exchange.whole = exchange.first.end == BodyDecoder::End::kComplete;
  if (takes_along) exchange.head_memory = std::move(in_.memory);
  if (exchange.first.end == BodyDecoder::End::kBad) {
    linger_ = true;
    co_return co_await Refuse(exchange.first.error.code(),
                              std::string(exchange.first.error.detail()));
  }
  if (exchange.overrides.Feed(exchange.first.data)) {
    if (!is_observing_) {
      co_return co_await Refuse(ErrorCode::kMalformedRequest,
                                std::string(exchange.overrides.reason()));
    }
    NoteFormOverride(exchange.overrides.reason());
  }
  if (mcp == nullptr) record_.bytes_in += exchange.request_head.size() + exchange.first.data.size();
  if (observed_) ObserveRequest(exchange.first);
  if (head_.expect_continue && !exchange.whole && !body_began) {
    if (!co_await Continue100()) co_return false;
  }
  auto got = co_await AttemptRead(exchange);
  EndTry(exchange, got);
  while (!got && !sends_once_ && !exchange.left &&
         MayRetry(got.error(), exchange.whole, record_.attempts)) {
    got = co_await AttemptRead(exchange);
    EndTry(exchange, got);
  }
  if (exchange.whole && in_.begin == in_.end) in_.memory.reset();
  if (got && exchange.head->status == 101) {
    // The tunnel reads from the client itself, and the exchange may be over at once.
    co_await EndSides(exchange);
    if (exchange.left) co_return false;
    co_return co_await RunTunnel(exchange);
  }
  if (!exchange.upgrade.empty()) services_.metrics->tunnels_refused.Increment();
  if (got) {
    const bool relayed = co_await RelayResponse(exchange);
    if (observed_ && relayed) observed_->AnswerDelivered();
    bool whole = exchange.whole;
    if (exchange.uploading || exchange.watching) whole = co_await EndSides(exchange);
    co_return FinishRead(exchange, relayed, whole);
  }
  // A body that broke off is why the backend gave no answer.
  co_return co_await EndUnanswered(exchange, exchange.upload_error.value_or(got.error()));
}

Task<bool> Session::EndUnanswered(ReadExchange& exchange, Error error) {
  if (!exchange.left) record_.error = FactsOf(error.code()).slug;
  if (observed_) observed_->Failed(error);
  if (cut_) {
    co_await EndSides(exchange);
    linger_ = false;
    co_return false;
  }
  const bool keep = exchange.whole && head_.keep_alive;
  linger_ = !keep;
  const bool kept = co_await SendAnswer(AnswerFailure(exchange, error), keep);
  if (exchange.uploading || exchange.watching) co_await EndSides(exchange);
  co_return kept && !exchange.half_closed;
}

void Session::EndTry(const ReadExchange& exchange, const Result<void>& got) {
  const MonoTime now = Now();
  record_.EndTry(now, got ? exchange.head->status : 0,
                 got             ? std::string_view()
                 : exchange.left ? "client-gone"
                                 : FactsOf(got.error().code()).slug);
  if (got) record_.overhead = now - started_ - record_.with_backend;
}

// The request as it goes on: same fields in the same order, without what belongs to this hop.
bool Session::RenderReadHead(ReadExchange& exchange, const RouteMatch& match,
                             std::string_view query) {
  HeadWriter writer(exchange.request_room.data(), exchange.request_room.size());
  if (match.sent.data() == head_.target.data() && match.backend->base_path.empty()) {
    writer.StartRequest(head_);
  } else {
    std::string target = match.backend->base_path;
    target.append(match.sent).append(query);
    writer.StartRequest(head_.method, target);
  }
  writer.Add(view_->HostOf(*match.backend));
  std::uint64_t dropped = is_observing_ ? kDroppedInObserveMode : kDroppedFromClient;
  if (span_.is_on) {
    AddTraceparent(exchange, writer);
    dropped |= Bit(FieldId::kTraceparent) | (span_.is_clients ? 0 : Bit(FieldId::kTracestate));
  }
  writer.CopyFields(head_, dropped | (forwards_left_ < 0 ? 0 : kMaxForwardsBit));
  if (forwards_left_ >= 0) writer.Add("Max-Forwards", std::to_string(forwards_left_));
  if (!exchange.upgrade.empty()) writer.Upgrade(exchange.upgrade);
  writer.Add(view_->via);
  if (head_.body == BodyKind::kChunked) {
    writer.Chunked();
  } else if (head_.body == BodyKind::kLength || head_.has_content_length ||
             (CarriesContent(head_.method) && !is_observing_)) {
    writer.ContentLength(head_.content_length);
  }
  if (exchange.is_last) writer.ConnectionClose();
  writer.End();
  exchange.chunked_upload = head_.body == BodyKind::kChunked;
  exchange.head_request = head_.method == "HEAD";
  exchange.request_head = writer.view();
  return writer.ok();
}

// One attempt: connect or reuse, send, read the response's head. A second attempt is possible only
// while nothing of a response has been seen and the whole request is here.
Task<Result<void>> Session::AttemptRead(ReadExchange& exchange) {
  const Backend& backend = *exchange.backend;
  // Before a kept connection is looked at and taken: it is used at once then.
  if (exchange.request_head.size() + exchange.first.data.size() <= kTogetherBytesMax) {
    co_await EndOfTurn(worker_.thread.poller());
  }
  MonoTime now = Now();
  if (++record_.attempts == 1 && !sends_once_ && exchange.upgrade.empty()) {
    // What another policy may have opened is not this one's to use.
    if (view_ == worker_.view) exchange.upstream = worker_.pool.Take(backend, now);
  }
  if (span_.is_on) BeginTrySpan(exchange);
  record_.reused = exchange.upstream != nullptr;
  MonoTime& began = record_.tries.at(static_cast<std::size_t>(record_.attempts) - 1).began;
  began = now;
  if (!exchange.upstream) {
    auto connected = co_await Connect(worker_.thread, backend, services_.own);
    if (!connected) co_return std::unexpected(connected.error());
    exchange.upstream = std::move(*connected);
    now = Now();
  }
  Connection& upstream = *exchange.upstream;
  record_.peer = upstream.peer;
  upstream.deadline.Reset();
  char chunk[24];
  const std::string_view data = exchange.first.data;
  const bool chunk_it = exchange.chunked_upload && !data.empty();
  const std::string_view last =
      exchange.chunked_upload && exchange.whole ? "0\r\n\r\n" : std::string_view();
  auto sending = WriteAll(
      upstream, {exchange.request_head, chunk_it ? ChunkHead(data.size(), chunk) : kNothing, data,
                 chunk_it ? kCrlf : kNothing, last});
  // A backend may answer and close before it has read everything, so a failed write is not the end.
  if (!sending.Try()) {
    upstream.deadline.Arm(now + exchange.patience);
    co_await sending;
    now = Now();
  }
  exchange.sent_whole = sending.await_resume();
  exchange.head_due = now + exchange.patience;
  upstream.deadline.Arm(exchange.whole ? AnswerDue(exchange, now) : exchange.head_due);
  if (observed_ && exchange.whole) observed_->RequestSent();
  if (!exchange.whole && !exchange.uploading) {
    exchange.uploading = true;
    Spawn(Upload(exchange), [] {});
  }
  exchange.up.pool = &worker_.thread.buffers();
  exchange.up.begin = exchange.up.end = 0;
  bool saw_bytes = false;
  const std::string_view method = exchange.head_request ? std::string_view("HEAD") : "GET";
  auto got = co_await ReadResponseHead(upstream, exchange.up, method, worker_.thread.heads(),
                                       exchange.head, &saw_bytes, Interim::kReturn);
  for (;;) {
    if (got) {
      if (exchange.head->status >= 200 || exchange.head->status == 101) break;
      got = co_await PassInterim(exchange);
      if (!got) break;
    } else {
      // A client that has left is not waited for.
      const bool asked_all = exchange.whole || exchange.uploaded.is_set();
      const bool is_first_look = !exchange.watching && asked_all && upstream.deadline.expired();
      if (!is_first_look || Now() >= exchange.head_due) break;
      upstream.deadline.Arm(exchange.head_due);
      StartWatch(exchange);
    }
    got = co_await ReadResponseHead(upstream, exchange.up, method, worker_.thread.heads(),
                                    exchange.head, &saw_bytes, Interim::kReturn);
  }
  co_return JudgeAttempt(exchange, std::move(got), saw_bytes);
}

// What came of waiting for the response's head.
Result<void> Session::JudgeAttempt(ReadExchange& exchange, Result<void> got, bool saw_bytes) const {
  const Connection& upstream = *exchange.upstream;
  if (got && record_.reused && exchange.IsAboutSilence()) {
    got = std::unexpected(
        Error(ErrorCode::kBackendReset, "the backend gave up the kept connection with a 408"));
    saw_bytes = false;
  }
  exchange.answering = got.has_value();
  if (got && exchange.head->status == 101 && !SwitchedTo(*exchange.head, exchange.upgrade)) {
    got = std::unexpected(
        Error(ErrorCode::kBackendProtocol, "the backend switched protocols unasked"));
  }
  if (got) return got;
  if (!saw_bytes && upstream.tls != nullptr && upstream.tls->refused_by_peer()) {
    got = std::unexpected(upstream.tls->HandshakeError());
  }
  if (!exchange.uploading) exchange.upstream.reset();
  if (saw_bytes && got.error().code() == ErrorCode::kBackendReset) {
    return std::unexpected(Error(ErrorCode::kBackendProtocol, "the answer's head was cut off"));
  }
  return got;
}

// 102 and 103 go on to a client that knows them; 100 answers a question that we have answered.
Task<Result<void>> Session::PassInterim(ReadExchange& exchange) {
  const Head& head = *exchange.head;
  if (!exchange.interim.Take(head)) {
    co_return std::unexpected(Error(ErrorCode::kBackendProtocol, kTooManyInterim));
  }
  if (head.status != 100 && head_.minor == 1) {
    // Bytes of an answer came, so the request is not sent again and its head's room is free.
    HeadWriter writer(exchange.head_memory.get(), limits::kRelayBufferBytes);
    writer.StartResponse(head.status, head.reason);
    writer.CopyFields(head, kDroppedFromBackend);
    writer.End();
    if (!writer.ok()) {
      co_return std::unexpected(
          Error(ErrorCode::kBackendProtocol, "an interim answer's head cannot be forwarded"));
    }
    LimitTaking(services_.bounds.send_timeout);
    const bool is_told = co_await WriteAll(client_, {writer.view()});
    EndTaking();
    record_.bytes_out += writer.view().size();
    if (!is_told) {
      // What is sent behind a part of it would be read as the rest.
      record_.status = head.status;
      record_.client_gone = exchange.left = cut_ = true;
      co_return std::unexpected(
          Error(ErrorCode::kBackendTimeout, "the client did not take an interim answer"));
    }
  }
  exchange.up.Consume(head.size);
  // Who shows that it works on the answer gets its time again, but not for a client that has left.
  const MonoTime now = Now();
  exchange.head_due = now + exchange.patience;
  const bool asked_all = exchange.whole || exchange.uploaded.is_set();
  exchange.upstream->deadline.Arm(asked_all ? AnswerDue(exchange, now) : exchange.head_due);
  co_return Result<void>();
}

// The answer is 101 with the protocol that was asked for: from here on bytes, until both sides end.
Task<bool> Session::RunTunnel(ReadExchange& exchange) {
  const Head& head = *exchange.head;
  record_.status = head.status;
  HeadWriter writer(exchange.head_memory.get(), limits::kRelayBufferBytes);
  writer.StartResponse(head.status, head.reason);
  writer.CopyFields(head, kDroppedFromBackend);
  writer.Upgrade(exchange.upgrade);
  writer.End();
  exchange.up.Consume(head.size);
  client_.deadline.Arm(Now() + services_.bounds.send_timeout);
  if (!writer.ok() || !co_await WriteAll(client_, {writer.view()})) {
    record_.client_gone = writer.ok();
    co_return false;
  }
  exchange.head_memory.reset();
  Tunnel tunnel(worker_.thread, {client_, in_}, {*exchange.upstream, exchange.up},
                services_.bounds.stream_timeout, {});
  services_.metrics->tunnels_opened.Increment();
  co_await RunThrough(tunnel);
  co_return false;
}

// Sends the rest of the request body while the response is awaited.
Task<void> Session::Upload(ReadExchange& exchange) {
  Connection& upstream = *exchange.upstream;
  bool complete = false;
  BodyPace pace(services_.bounds.body_timeout);
  // What follows a piece that was not sent whole would stand for the rest of it.
  while (!complete && !exchange.stopping && exchange.sent_whole) {
    const std::size_t room = exchange.request_body.ReadLimit(in_.free_size());
    const MonoTime began = Now();
    body_due_ = pace.Until(began);
    LimitClient();
    if (!in_.memory) in_.memory = worker_.thread.buffers().Take();
    const std::size_t size = co_await ReadSome(client_, in_.free_space(), room);
    body_due_ = kNotDue;
    if (size == 0) {
      exchange.upload_error = BrokenBody(client_);
      break;
    }
    LimitClient();
    pace.Took(began, Now(), size);
    in_.end += size;
    const auto piece = exchange.request_body.Decode(in_);
    if (piece.end == BodyDecoder::End::kBad) {
      exchange.upload_error = piece.error;
      break;
    }
    if (exchange.overrides.Feed(piece.data)) {
      if (!is_observing_) {
        exchange.upload_error = Error(ErrorCode::kMalformedRequest, exchange.overrides.reason());
        break;
      }
      NoteFormOverride(exchange.overrides.reason());
    }
    complete = piece.end == BodyDecoder::End::kComplete;
    record_.bytes_in += piece.data.size();
    if (observed_) ObserveRequest(piece);
    char chunk[24];
    const bool chunk_it = exchange.chunked_upload && !piece.data.empty();
    // A deadline for both: what is relayed meanwhile may be quiet for longer.
    upstream.deadline.Arm(Now() + (exchange.answering ? QuietMax(exchange) : exchange.patience));
    if (!co_await WriteAll(upstream, {chunk_it ? ChunkHead(piece.data.size(), chunk) : kNothing,
                                      piece.data, chunk_it ? kCrlf : kNothing,
                                      complete && exchange.chunked_upload ? "0\r\n\r\n" : ""})) {
      exchange.sent_whole = false;
      break;
    }
    if (observed_ && complete) observed_->RequestSent();
  }
  if (complete && !exchange.answering) {
    const MonoTime now = Now();
    exchange.head_due = now + exchange.patience;
    upstream.deadline.Arm(FirstLook(exchange, now));
  }
  if (!complete && !upstream.error) {
    // The client broke off: the backend must not take what it has for the whole.
    upstream.Cut();
  }
  exchange.uploaded.Set(complete);
}

}  // namespace recourse
