// The answer of a read on its way to the client, and the end of the exchange.
#include <netinet/tcp.h>

#include <charconv>

#include "filters/call/mcp_outcome.h"
#include "proxy/base/mcp_limits.h"
#include "proxy/exchange/observation.h"
#include "proxy/exchange/read_exchange.h"

namespace recourse {

namespace {

// A peer that is gone without a word is found out in some minutes, however long it may be silent.
void KeepAlive(Connection& connection) {
  const int on = 1, idle_s = 60, interval_s = 15, probes = 8;
  const int socket = connection.socket();
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

std::string_view LocationOf(const Head& head) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (EqualsIgnoreCase(head.fields[i].name, "Location")) return head.fields[i].value;
  }
  return {};
}

struct Form {
  std::string_view type;
  bool is_encoded = false;
};

Form FormOf(const Head& head) {
  Form form;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.id == FieldId::kContentType) form.type = field.value;
    form.is_encoded = form.is_encoded || field.id == FieldId::kContentEncoding;
  }
  return form;
}

bool IsOfEvents(std::string_view type) { return ToLower(type).starts_with("text/event-stream"); }

}  // namespace

std::string_view ChunkHead(std::size_t size, char (&out)[24]) {
  char* const end = std::to_chars(out, out + 20, size, 16).ptr;
  end[0] = '\r';
  end[1] = '\n';
  return {out, static_cast<std::size_t>(end - out) + 2};
}

bool Session::RenderResponseHead(ReadExchange& exchange, char* out, std::size_t* size) {
  using Framing = ReadExchange::Framing;
  const Head& head = *exchange.head;
  HeadWriter writer(out, limits::kRelayBufferBytes);
  writer.StartResponse(head);
  writer.CopyFields(head, is_observing_ ? 0 : kDroppedFromBackend);
  exchange.keep = head_.keep_alive && !IsLast() && (exchange.whole || exchange.uploaded.is_set());
  switch (head.body) {
    case BodyKind::kNone:
      exchange.framing = Framing::kNone;
      if (head.has_content_length && (exchange.head_request || head.status == 304)) {
        writer.ContentLength(head.content_length);
      }
      break;
    case BodyKind::kLength:
      exchange.framing = Framing::kLength;
      writer.ContentLength(head.content_length);
      break;
    case BodyKind::kChunked:
    case BodyKind::kUntilClose:
      exchange.framing = head_.minor == 1 ? Framing::kChunked : Framing::kUntilClose;
      if (head_.minor == 1) {
        writer.Chunked();
      } else {
        exchange.keep = false;
      }
      break;
  }
  if (!exchange.keep) writer.ConnectionClose();
  writer.End();
  *size = writer.view().size();
  return writer.ok();
}

Task<bool> Session::SendPiece(ReadExchange& exchange, std::string_view head,
                              const BodyDecoder::Piece& piece) {
  if (observed_) observed_->TakeAnswer(piece);
  if (exchange.events) exchange.events->Take(piece.data);
  using Framing = ReadExchange::Framing;
  const bool chunked = exchange.framing == Framing::kChunked;
  const bool ends =
      piece.end == BodyDecoder::End::kComplete || piece.end == BodyDecoder::End::kClosed;
  const bool chunk_it = chunked && !piece.data.empty();
  std::string untold_piece;
  std::string_view ending = chunked && ends ? std::string_view("0\r\n\r\n") : std::string_view();
  if (exchange.mcp != nullptr) {
    exchange.mcp->tap.Take(piece.data);
    if (ends) exchange.mcp->tap.Finish();
    // Before the client has it all, and makes the next call.
    Learn(*exchange.mcp, *exchange.backend);
    const bool may_add = chunked || exchange.framing == Framing::kUntilClose;
    if (const std::string untold = ends && may_add ? exchange.mcp->tap.Ending() : "";
        !untold.empty()) {
      record_.error = "response-incomplete";
      char size[24];
      untold_piece = untold;
      if (chunked) {
        untold_piece.insert(0, ChunkHead(untold.size(), size)).append("\r\n").append(ending);
      }
      ending = untold_piece;
    }
  }
  if (late_ && exchange.is_listening) TakeLate(*exchange.backend, piece.data);
  if (head.empty() && piece.data.empty() && !ends) co_return true;
  const bool together = head.size() + piece.data.size() <= kTogetherBytesMax;
  if (together) co_await EndOfTurn(worker_.thread.poller());
  char chunk[24];
  // Unless it is that of the body, which holds for this too.
  if (!exchange.IsUploading()) client_.deadline.Reset();
  auto sending = WriteAll(client_, {head, chunk_it ? ChunkHead(piece.data.size(), chunk) : kNothing,
                                    piece.data, chunk_it ? kCrlf : kNothing, ending});
  if (!sending.Try()) {
    LimitTaking(services_.bounds.send_timeout);
    co_await sending;
    EndTaking();
  }
  const bool sent = sending.await_resume();
  if (together) co_await EndOfTurn(worker_.thread.poller());
  record_.bytes_out += head.size() + piece.data.size();
  record_.client_gone = !sent;
  if (observed_ && !sent && !ends) observed_->AnswerBroke(/*client_left=*/true);
  co_return sent;
}

// Nothing of the answer has gone out yet, and it turned out to be none. False, as RelayResponse.
Task<bool> Session::ReplaceAnswer(ReadExchange& exchange, std::string_view detail) {
  exchange.replaced = true;
  record_.error = FactsOf(ErrorCode::kBackendProtocol).slug;
  if (observed_) observed_->AnswerBroke(/*client_left=*/false);
  linger_ = true;
  const Error error(ErrorCode::kBackendProtocol, detail);
  co_await SendAnswer(AnswerFailure(exchange, error), /*keep=*/false);
  co_return false;
}

HttpResponse Session::AnswerFailure(const ReadExchange& exchange, const Error& error) const {
  HttpResponse answer = FailureAnswer(error, sends_once_, exchange.upload_error.has_value());
  const McpRead* const mcp = exchange.mcp;
  if (mcp == nullptr || mcp->requests.size() != 1 || mcp->requests.front().id.empty()) {
    return answer;
  }
  return AgentAnswer(mcp->requests.front(), mcp->side, {std::move(answer), error.code()});
}

// True: the response went out whole.
Task<bool> Session::RelayResponse(ReadExchange& exchange) {
  using End = BodyDecoder::End;
  Connection& upstream = *exchange.upstream;
  record_.status = exchange.head->status;
  if (observed_) observed_->TakeAnswerHead(*exchange.head);
  if (exchange.is_endpoint && !is_observing_ && IsRedirect(exchange.head->status)) {
    co_return co_await ReplaceAnswer(exchange, RedirectText(LocationOf(*exchange.head)));
  }
  if (exchange.backend->is_mcp) MeetMcpAnswer(exchange);
  std::size_t head_size = 0;
  // The request's head is not needed any more; its room holds the response's.
  if (!RenderResponseHead(exchange, exchange.head_memory.get(), &head_size)) {
    co_return co_await ReplaceAnswer(exchange, "the answer's head cannot be forwarded");
  }
  BodyDecoder decoder(exchange.head->body, exchange.head->content_length, BodyDecoder::Of::kAnswer);
  const bool streams =
      exchange.head->body == BodyKind::kChunked || exchange.head->body == BodyKind::kUntilClose;
  if (streams) MeetEvents(exchange);
  exchange.up.Consume(exchange.head->size);
  auto piece = decoder.Decode(exchange.up);
  if (piece.end == End::kBad) {
    co_return co_await ReplaceAnswer(exchange, piece.error.detail());
  }
  if (!co_await SendPiece(exchange, {exchange.head_memory.get(), head_size}, piece)) {
    co_return false;
  }
  exchange.head_memory.reset();
  while (piece.end == End::kMore) {
    const MonoTime now = Now();
    upstream.deadline.Arm(now + QuietMax(exchange));
    const bool asked_all = exchange.whole || exchange.uploaded.is_set();
    if (streams && !exchange.watching && asked_all) StartWatch(exchange);
    // Also what comes behind the body, so that such a connection is not used again.
    if (exchange.has_events) AwaitEvents(exchange, now);
    const std::size_t size = co_await ReadInto(upstream, exchange.up);
    waits_for_events_ = nullptr;
    if (size == 0) {
      piece = EndOf(exchange, decoder);
    } else {
      exchange.up.end += size;
      piece = decoder.Decode(exchange.up);
    }
    if (piece.end == End::kCut || piece.end == End::kBad) {
      // Never completed towards the client: it sees the connection close early.
      record_.error = "response-incomplete";
      if (observed_) observed_->AnswerBroke(/*client_left=*/false);
      if (exchange.mcp == nullptr || exchange.mcp->tap.Ending().empty()) co_return false;
      // Nobody who waits for a message sees that the connection has closed.
      exchange.head->keep_alive = false;
      piece = {{}, End::kComplete};
    }
    if (!co_await SendPiece(exchange, {}, piece)) co_return false;
  }
  co_return piece.end == End::kComplete || piece.end == End::kClosed;
}

// A head has come that an MCP server's client waits for.
void Session::MeetMcpAnswer(ReadExchange& exchange) {
  const auto [type, is_encoded] = FormOf(*exchange.head);
  if (exchange.mcp != nullptr) {
    exchange.mcp->tap.Head(exchange.head->status, type, is_encoded);
    exchange.mcp->DropBody();
  }
  const bool listens = exchange.mcp != nullptr
                           ? exchange.mcp->requests.front().method == "subscriptions/listen"
                           : record_.method.view() == "GET";
  if (listens && IsOfEvents(type)) {
    exchange.is_listening = true;
    KeepAlive(*exchange.upstream);
  }
}

// An answer to a POST may be events too, and no client takes it up again.
void Session::MeetEvents(ReadExchange& exchange) {
  if (!exchange.is_listening && record_.method.view() != "GET") return;
  const auto [type, is_encoded] = FormOf(*exchange.head);
  exchange.has_events = IsOfEvents(type);
  if (exchange.has_events && !is_encoded) exchange.events.emplace();
}

void Session::AwaitEvents(ReadExchange& exchange, MonoTime now) {
  exchange.heard = now;
  exchange.is_limited = false;
  waits_for_events_ = &exchange;
  if (services_.draining) LimitQuiet(exchange);
}

// The process is to stop, and a stream may have nothing to say for hours.
void Session::LimitQuiet(ReadExchange& exchange) {
  if (std::exchange(exchange.is_limited, true)) return;
  exchange.upstream->deadline.Arm(exchange.heard + limits::kDrainQuiet);
}

// What it means that no more has come. Whole events may end where they are, as their client takes
// the stream up again.
BodyDecoder::Piece Session::EndOf(ReadExchange& exchange, const BodyDecoder& decoder) {
  const Connection& upstream = *exchange.upstream;
  if (exchange.is_limited && upstream.deadline.expired() && exchange.events &&
      exchange.events->IsBetween()) {
    exchange.head->keep_alive = false;
    return {{}, BodyDecoder::End::kComplete};
  }
  const bool clean = !upstream.error || upstream.error == boost::asio::error::eof;
  return {{}, decoder.Ended(clean)};
}

// How long a stream may say nothing.
Millis Session::QuietMax(const ReadExchange& exchange) const {
  if (exchange.half_closed) return limits::kHalfClosedIdleTimeout;
  const Millis usual = services_.bounds.stream_timeout;
  return exchange.is_listening ? std::max<Millis>(usual, limits::kMcpListenQuiet) : usual;
}

// When a client that waits for its answer is looked at.
MonoTime Session::FirstLook(const ReadExchange& exchange, MonoTime now) const {
  return std::min(exchange.head_due, now + limits::kClientLook);
}

// Until when the head of the answer is waited for, without a look at the client on the way.
MonoTime Session::AnswerDue(const ReadExchange& exchange, MonoTime now) const {
  if (!exchange.watching) return FirstLook(exchange, now);
  // Of a second attempt: what the watch saw before this one had a connection counts here, too.
  if (exchange.left) return now;
  if (!exchange.half_closed) return exchange.head_due;
  return std::min(exchange.head_due, now + limits::kReadFirstByteTimeout);
}

void Session::StartWatch(ReadExchange& exchange) {
  exchange.watching = true;
  Spawn(WatchClient(exchange), [] {});
}

// An answer may be long in coming, a stream silent for long; a client that went away meanwhile must
// not hold the backend.
Task<void> Session::WatchClient(ReadExchange& exchange) {
  const bool readable = co_await WaitReadable(client_);
  const Peer peer = readable ? LookAtClient() : Peer::kSilent;
  MonoTime until = Now();
  if (peer == Peer::kReset) {
    record_.client_gone = true;
    exchange.left = true;
  } else if (peer == Peer::kClosed) {
    // A half-close is no abort; one that left completely shows at the next write. Until then
    // it gets less time.
    exchange.half_closed = true;
    until = exchange.answering ? until + limits::kHalfClosedIdleTimeout
                               : std::min(exchange.head_due, until + limits::kReadFirstByteTimeout);
  }
  const bool shortens = exchange.left || exchange.half_closed;
  if (shortens && exchange.upstream != nullptr) exchange.upstream->deadline.Arm(until);
  exchange.watched.Set(readable);
}

// Waits until the upload no longer uses the exchange; true when the client's whole body was read.
Task<bool> Session::StopUpload(ReadExchange& exchange) {
  if (!exchange.uploaded.is_set()) {
    // Answered before the upload ended: stop it; neither connection is usable then.
    exchange.stopping = true;
    exchange.upstream->Cut();
    // A deadline also ends a read that would find something, which Cancel() does not.
    client_.deadline.Arm(Now());
    exchange.keep = false;
    linger_ = true;
  }
  co_return co_await exchange.uploaded.Wait();
}

// Ends what runs beside the exchange; true when the client's whole body was read.
Task<bool> Session::EndSides(ReadExchange& exchange) {
  const bool whole = exchange.uploading ? co_await StopUpload(exchange) : exchange.whole;
  if (exchange.watching) {
    if (!exchange.watched.is_set()) client_.Cancel();
    co_await exchange.watched.Wait();
  }
  co_return whole;
}

// Keeps what can be used again; nothing uses the exchange any more.
bool Session::FinishRead(ReadExchange& exchange, bool relayed, bool whole) {
  // Where a part of the body is missing, the next request would be read as that part.
  const bool clean =
      relayed && whole && exchange.sent_whole && exchange.up.begin == exchange.up.end;
  if (clean && exchange.head->keep_alive && exchange.head->body != BodyKind::kUntilClose &&
      !exchange.head_request && exchange.upgrade.empty() && !exchange.is_last) {
    const Millis hint{(exchange.head->keep_alive_timeout_s - 1) * 1000};
    const Millis idle = exchange.head->keep_alive_timeout_s < 0
                            ? limits::kUpstreamIdleTimeout
                            : std::min<Millis>(hint, std::chrono::seconds(60));
    // What was opened under a policy that was replaced meanwhile is not offered to the next one.
    if (idle > Millis{0} && view_ == worker_.view) {
      last_ = Now();
      worker_.pool.Give(*exchange.backend, std::move(exchange.upstream), idle, last_);
    }
  }
  linger_ = linger_ && (relayed || exchange.replaced);
  cut_ = !relayed && !exchange.replaced;
  if (cut_ && exchange.framing == ReadExchange::Framing::kUntilClose) ShowCut();
  return relayed && whole && exchange.keep;
}

}  // namespace recourse
