// Reads stream both ways, piece by piece, through at most one buffer per direction.
#include <charconv>

#include "filters/answers.h"
#include "proxy/net/response_reader.h"
#include "proxy/server/session.h"

namespace recourse {
namespace {

constexpr std::uint64_t kDroppedFromClient =
    Bit(FieldId::kHost) | Bit(FieldId::kExpect) | Bit(FieldId::kForwarded) |
    Bit(FieldId::kRecourseOwn) | Bit(FieldId::kRecourseIntent) | Bit(FieldId::kRecourseFlow) |
    Bit(FieldId::kRecourseSession);
constexpr std::uint64_t kDroppedFromBackend =
    Bit(FieldId::kRecourseOwn) | Bit(FieldId::kAccelRedirect);

bool CarriesContent(std::string_view method) {
  return method == "POST" || method == "PUT" || method == "PATCH";
}

// A read may be sent again while no byte of an answer came: its effect is none by policy.
bool MayRetry(const Error& error, bool whole, int attempts) {
  return whole && error.code() == ErrorCode::kBackendReset && attempts < limits::kReadAttemptsMax;
}

// "1a2b\r\n" for a piece of a chunked body.
std::string_view ChunkHead(std::size_t size, char (&out)[24]) {
  char* const end = std::to_chars(out, out + 20, size, 16).ptr;
  end[0] = '\r';
  end[1] = '\n';
  return {out, static_cast<std::size_t>(end - out) + 2};
}

}  // namespace

struct Session::ReadExchange {
  ReadExchange(const RouteMatch& match, BufferPool& buffers, const Head& request)
      : backend(match.backend),
        patience(match.tool != nullptr && match.tool->timeout
                     ? *match.tool->timeout
                     : match.backend->timeout.value_or(limits::kReadFirstByteTimeout)),
        head_memory(buffers.Take()),
        request_body(request.body, request.content_length) {}

  const Backend* backend;
  const Millis patience;  // with the backend, for its first byte and for progress of an upload
  BufferPool::Buffer head_memory;
  std::string_view request_head;
  BodyDecoder request_body;
  BodyDecoder::Piece first;  // what of the request body is here already
  bool chunked_upload = false;
  bool whole = false;  // the request body is all here, so the request can be sent again
  std::unique_ptr<Connection> upstream;
  ReadBuffer up;
  Head head;  // of the response
  Promise<bool> uploaded;
  bool uploading = false;
  bool stopping = false;  // the upload is to end
  bool head_request = false;
  enum class Framing : std::uint8_t { kNone, kLength, kChunked, kUntilClose };
  Framing framing = Framing::kNone;
  bool keep = false;  // the client's connection
  Promise<bool> watched;
  bool watching = false;
  bool half_closed = false;  // the client will send nothing more, and may be gone
};

Task<bool> Session::RelayRead(const RouteMatch& match, std::string_view query) {
  ReadExchange exchange(match, worker_.thread.buffers(), head_);
  if (!RenderReadHead(exchange, match, query)) {
    co_return co_await Refuse(ErrorCode::kHeaderTooLarge, "the request's head cannot be forwarded");
  }
  in_.Consume(head_.size);
  exchange.first = exchange.request_body.Decode(in_);
  exchange.whole = exchange.first.end == BodyDecoder::End::kComplete;
  if (exchange.first.end == BodyDecoder::End::kBad) {
    linger_ = true;
    co_return co_await Refuse(ErrorCode::kMalformedRequest, "the chunked body is malformed");
  }
  record_.bytes_in += exchange.request_head.size() + exchange.first.data.size();
  if (head_.expect_continue && !exchange.whole && exchange.first.data.empty()) {
    if (!co_await Continue100()) co_return false;
  }
  auto got = co_await AttemptRead(exchange);
  while (!got && MayRetry(got.error(), exchange.whole, record_.attempts)) {
    services_.metrics->read_retries.Increment();
    got = co_await AttemptRead(exchange);
  }
  worker_.metrics.CountAttempt(match.backend, got ? "ok" : FactsOf(got.error().code()).slug);
  if (exchange.whole && in_.begin == in_.end) in_.memory.reset();
  if (got) {
    const bool relayed = co_await RelayResponse(exchange);
    co_return co_await FinishRead(exchange, relayed);
  }
  record_.error = FactsOf(got.error().code()).slug;
  const bool keep = exchange.whole && head_.keep_alive;
  linger_ = !keep;
  client_.deadline.Arm(Now() + limits::kClientWriteTimeout);
  const bool kept =
      co_await SendAnswer(MakeProblem(got.error().code(), got.error().detail()).response, keep);
  if (exchange.uploading) co_await StopUpload(exchange);
  co_return kept;
}

// The request as it goes on: same fields in the same order, without what belongs to this hop.
bool Session::RenderReadHead(ReadExchange& exchange, const RouteMatch& match,
                             std::string_view query) {
  HeadWriter writer(exchange.head_memory.get(), limits::kRelayBufferBytes);
  if (match.path.data() == head_.target.data() && match.backend->base_path.empty()) {
    writer.StartRequest(head_.method, head_.target);
  } else {
    std::string target = match.backend->base_path;
    target.append(match.path).append(query);
    writer.StartRequest(head_.method, target);
  }
  writer.Add("Host", match.backend->authority);
  writer.CopyFields(head_, kDroppedFromClient);
  writer.Add("Via", services_.via);
  if (head_.body == BodyKind::kChunked) {
    writer.Chunked();
  } else if (head_.body == BodyKind::kLength || CarriesContent(head_.method)) {
    writer.ContentLength(head_.content_length);
  }
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
  if (++record_.attempts == 1) exchange.upstream = worker_.pool.Take(backend.authority);
  record_.reused = exchange.upstream != nullptr;
  if (!exchange.upstream) {
    auto connected = co_await Connect(worker_.thread, backend, services_.own);
    if (!connected) co_return std::unexpected(connected.error());
    exchange.upstream = std::move(*connected);
  }
  Connection& upstream = *exchange.upstream;
  upstream.deadline.Arm(Now() + exchange.patience);
  char chunk[24];
  const std::string_view data = exchange.first.data;
  const bool chunk_it = exchange.chunked_upload && !data.empty();
  const std::string_view last =
      exchange.chunked_upload && exchange.whole ? "0\r\n\r\n" : std::string_view();
  const bool sent = co_await WriteAll(
      upstream, {exchange.request_head, chunk_it ? ChunkHead(data.size(), chunk) : "", data,
                 chunk_it ? "\r\n" : "", last});
  // A backend may answer and close before it has read everything, so a failed write is not the end.
  (void)sent;
  if (!exchange.whole && !exchange.uploading) {
    exchange.uploading = true;
    Spawn(Upload(exchange), [] {});
  }
  if (!exchange.up.memory) exchange.up.memory = worker_.thread.buffers().Take();
  exchange.up.begin = exchange.up.end = 0;
  bool saw_bytes = false;
  auto got = co_await ReadResponseHead(
      upstream, exchange.up, exchange.head_request ? "HEAD" : "GET", exchange.head, &saw_bytes);
  if (got) co_return got;
  if (!exchange.uploading) exchange.upstream.reset();
  if (saw_bytes && got.error().code() == ErrorCode::kBackendReset) {
    co_return std::unexpected(Error(ErrorCode::kBackendProtocol, "the answer's head was cut off"));
  }
  co_return got;
}

// Sends the rest of the request body while the response is awaited.
Task<void> Session::Upload(ReadExchange& exchange) {
  Connection& upstream = *exchange.upstream;
  bool complete = false;
  while (!complete && !exchange.stopping) {
    const std::size_t room = exchange.request_body.ReadLimit(in_.free_size());
    client_.deadline.Arm(Now() + limits::kBodyProgressTimeout);
    if (!in_.memory) in_.memory = worker_.thread.buffers().Take();
    const std::size_t size = co_await ReadSome(client_, in_.free_space(), room);
    if (size == 0) break;
    in_.end += size;
    const auto piece = exchange.request_body.Decode(in_);
    if (piece.end == BodyDecoder::End::kBad) break;
    complete = piece.end == BodyDecoder::End::kComplete;
    record_.bytes_in += piece.data.size();
    char chunk[24];
    const bool chunk_it = exchange.chunked_upload && !piece.data.empty();
    upstream.deadline.Arm(Now() + exchange.patience);
    if (!co_await WriteAll(upstream, {chunk_it ? ChunkHead(piece.data.size(), chunk) : "",
                                      piece.data, chunk_it ? "\r\n" : "",
                                      complete && exchange.chunked_upload ? "0\r\n\r\n" : ""})) {
      break;
    }
  }
  if (!complete && !upstream.error) {
    // The client broke off: the backend must not take what it has for the whole.
    IoError ignored;
    upstream.socket.shutdown(TcpSocket::shutdown_both, ignored);
  }
  exchange.uploaded.Set(complete);
}

bool Session::RenderResponseHead(ReadExchange& exchange, char* out, std::size_t* size) {
  using Framing = ReadExchange::Framing;
  const Head& head = exchange.head;
  HeadWriter writer(out, limits::kRelayBufferBytes);
  writer.StartResponse(head.status, head.reason);
  writer.CopyFields(head, kDroppedFromBackend);
  exchange.keep =
      head_.keep_alive && !services_.draining && (exchange.whole || exchange.uploaded.is_set());
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
  const bool chunked = exchange.framing == ReadExchange::Framing::kChunked;
  const bool ends =
      piece.end == BodyDecoder::End::kComplete || piece.end == BodyDecoder::End::kClosed;
  const bool chunk_it = chunked && !piece.data.empty();
  if (head.empty() && piece.data.empty() && !ends) co_return true;
  char chunk[24];
  client_.deadline.Arm(Now() + limits::kClientWriteTimeout);
  const bool sent = co_await WriteAll(
      client_, {head, chunk_it ? ChunkHead(piece.data.size(), chunk) : "", piece.data,
                chunk_it ? "\r\n" : "", chunked && ends ? "0\r\n\r\n" : ""});
  client_.deadline.Disarm();
  record_.bytes_out += head.size() + piece.data.size();
  record_.client_gone = !sent;
  co_return sent;
}

// True: the response went out whole.
Task<bool> Session::RelayResponse(ReadExchange& exchange) {
  using End = BodyDecoder::End;
  Connection& upstream = *exchange.upstream;
  record_.status = exchange.head.status;
  std::size_t head_size = 0;
  // The request's head is not needed any more; its room holds the response's.
  if (!RenderResponseHead(exchange, exchange.head_memory.get(), &head_size)) {
    linger_ = true;
    const auto problem =
        MakeProblem(ErrorCode::kBackendProtocol, "the answer's head cannot be forwarded");
    client_.deadline.Arm(Now() + limits::kClientWriteTimeout);
    co_await SendAnswer(problem.response, /*keep=*/false);
    co_return false;
  }
  BodyDecoder decoder(exchange.head.body, exchange.head.content_length);
  const bool streams =
      exchange.head.body == BodyKind::kChunked || exchange.head.body == BodyKind::kUntilClose;
  exchange.up.Consume(exchange.head.size);
  auto piece = decoder.Decode(exchange.up);
  if (!co_await SendPiece(exchange, {exchange.head_memory.get(), head_size}, piece)) {
    co_return false;
  }
  exchange.head_memory.reset();
  while (piece.end == End::kMore) {
    upstream.deadline.Arm(Now() + (exchange.half_closed ? limits::kHalfClosedIdleTimeout
                                                        : limits::kStreamIdleTimeout));
    if (streams && !exchange.watching && exchange.whole) {
      exchange.watching = true;
      Spawn(WatchClient(exchange), [] {});
    }
    const std::size_t size = co_await ReadSome(upstream, exchange.up.free_space(),
                                               decoder.ReadLimit(exchange.up.free_size()));
    if (size == 0) {
      const bool clean = !upstream.error || upstream.error == boost::asio::error::eof;
      piece = {{}, decoder.Ended(clean)};
    } else {
      exchange.up.end += size;
      piece = decoder.Decode(exchange.up);
    }
    if (piece.end == End::kCut || piece.end == End::kBad) {
      // Never completed towards the client (F17): it sees the connection close early.
      record_.error = "response-incomplete";
      co_return false;
    }
    if (!co_await SendPiece(exchange, {}, piece)) co_return false;
  }
  co_return piece.end == End::kComplete || piece.end == End::kClosed;
}

// A stream may be silent for long; a client that went away meanwhile must not hold the backend.
Task<void> Session::WatchClient(ReadExchange& exchange) {
  const bool readable = co_await WaitReadable(client_);
  const Peer peer = readable ? LookAtClient() : Peer::kThere;
  if (peer == Peer::kReset) {
    record_.client_gone = true;
    exchange.upstream->deadline.Arm(Now());
  } else if (peer == Peer::kClosed) {
    // A half-close is no abort (C6); one that left completely shows at the next write. Until then
    // a silent stream gets less time.
    exchange.half_closed = true;
    exchange.upstream->deadline.Arm(Now() + limits::kHalfClosedIdleTimeout);
  }
  exchange.watched.Set(readable);
}

// Waits until the upload no longer uses the exchange; true when the whole body was sent.
Task<bool> Session::StopUpload(ReadExchange& exchange) {
  if (!exchange.uploaded.is_set()) {
    // Answered before the upload ended (C5): stop it; neither connection is usable then.
    IoError ignored;
    exchange.stopping = true;
    exchange.upstream->socket.shutdown(TcpSocket::shutdown_both, ignored);
    // A deadline also ends a read that has been asked for but not started, which cancel() misses.
    client_.deadline.Arm(Now());
    exchange.keep = false;
    linger_ = true;
  }
  co_return co_await exchange.uploaded.Wait();
}

// Leaves nothing behind that still uses the exchange, and keeps what can be used again.
Task<bool> Session::FinishRead(ReadExchange& exchange, bool relayed) {
  bool whole = exchange.whole;
  if (exchange.uploading) whole = co_await StopUpload(exchange);
  if (exchange.watching) {
    IoError ignored;
    if (!exchange.watched.is_set()) client_.socket.cancel(ignored);
    co_await exchange.watched.Wait();
  }
  const bool clean = relayed && whole && exchange.up.begin == exchange.up.end;
  if (clean && exchange.head.keep_alive && exchange.head.body != BodyKind::kUntilClose &&
      !exchange.head_request) {
    const Millis hint{(exchange.head.keep_alive_timeout_s - 1) * 1000};
    const Millis idle = exchange.head.keep_alive_timeout_s < 0
                            ? limits::kUpstreamIdleTimeout
                            : std::min<Millis>(hint, std::chrono::seconds(60));
    if (idle > Millis{0}) {
      worker_.pool.Give(exchange.backend->authority, std::move(exchange.upstream), idle);
    }
  }
  linger_ = linger_ && relayed;
  co_return relayed&& whole&& exchange.keep;
}

}  // namespace recourse
