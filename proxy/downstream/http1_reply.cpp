#include "proxy/downstream/http1_reply.h"

#include "proxy/base/crash_point.h"
#include "proxy/base/log/log.h"
#include "proxy/net/http1/chunk_head.h"

namespace recourse {

Task<bool> Http1Reply::Send(const HttpResponse& response, bool may_keep) {
  const bool keep = may_keep && !wire_.IsLast();
  head_ = {};  // of one that did not begin
  head_memory_.reset();
  auto memory = wire_.worker.thread.buffers().Take();
  HeadWriter writer(memory.get(), limits::kRelayBufferBytes);
  writer.StartResponse(response.status, response.reason);
  for (const auto& [name, value] : response.headers) writer.Add(name, value);
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) writer.ContentLength(response.body.size());
  if (!keep) writer.ConnectionClose();
  writer.End();
  if (!writer.ok()) {
    Log(LogLevel::kError, "an answer's head cannot be written; closing the connection");
    co_return false;
  }
  RequestRecord& record = request_.record;
  record.status = response.status;
  const bool head_request = record.method.view() == "HEAD";
  std::string_view body = has_body && !head_request ? response.body : std::string_view();
  std::string_view head = writer.view();
  // A large answer has time for its size, but not for ever: the answer of a write holds its place.
  wire_.LimitTaking(request_.services.bounds.send_timeout +
                    Millis(body.size() / limits::kAnswerBytesPerMilliMin));
  if (record.effect == "write" && RC_CRASH_POINT_ARMED("k13")) {
    const std::string_view half = head.substr(0, head.size() / 2);
    if (!co_await WriteAll(wire_.client, {half})) co_return false;
    RC_CRASH_POINT("k13");
    head.remove_prefix(half.size());
  }
  const bool sent = co_await WriteAll(wire_.client, {head, body});
  record.bytes_out += head.size() + body.size();
  record.client_gone = record.client_gone || !sent;
  wire_.EndTaking();
  co_return sent&& keep;
}

bool Http1Reply::Begin(const PassedHead& passed) {
  const Head& head = passed.head;
  HeadWriter writer(passed.room.data(), passed.room.size());
  writer.StartResponse(head);
  writer.CopyFields(head, passed.dropped);
  keeps_ = request_.head.keep_alive && !wire_.IsLast() && passed.may_keep;
  switch (head.body) {
    case BodyKind::kNone:
      framing_ = Framing::kNone;
      if (head.has_content_length && (passed.answers_head || head.status == 304)) {
        writer.ContentLength(head.content_length);
      }
      break;
    case BodyKind::kLength:
      framing_ = Framing::kLength;
      writer.ContentLength(head.content_length);
      break;
    case BodyKind::kChunked:
    case BodyKind::kUntilClose:
      FrameStream(writer);
      break;
  }
  return EndHead(writer);
}

bool Http1Reply::Begin(const HttpResponse& head, std::optional<std::uint64_t> length,
                       bool may_keep) {
  head_memory_ = wire_.worker.thread.buffers().Take();
  HeadWriter writer(head_memory_.get(), limits::kRelayBufferBytes);
  writer.StartResponse(head.status, head.reason);
  for (const auto& [name, value] : head.headers) writer.Add(name, value);
  keeps_ = request_.head.keep_alive && !wire_.IsLast() && may_keep;
  if (length) {
    framing_ = Framing::kLength;
    writer.ContentLength(*length);
  } else {
    FrameStream(writer);
  }
  return EndHead(writer);
}

void Http1Reply::FrameStream(HeadWriter& writer) {
  const bool knows_chunks = request_.head.minor == 1;
  framing_ = knows_chunks ? Framing::kChunked : Framing::kUntilClose;
  keeps_ = keeps_ && knows_chunks;
  if (knows_chunks) writer.Chunked();
}

bool Http1Reply::EndHead(HeadWriter& writer) {
  if (!keeps_) writer.ConnectionClose();
  writer.End();
  head_ = writer.view();
  return writer.ok();
}

Task<bool> Http1Reply::Send(const ReplyPiece& piece) {
  const std::string_view head = std::exchange(head_, {});
  const std::string_view data = piece.data;
  const bool is_chunked = framing_ == Framing::kChunked;
  const bool is_chunk = is_chunked && !data.empty();
  std::string grown;
  std::string_view ending = is_chunked && piece.ends ? kLastChunk : std::string_view();
  char size[24];
  if (!piece.addition.empty()) {
    grown = piece.addition;
    if (is_chunked) grown.insert(0, ChunkHead(grown.size(), size)).append(kCrlf).append(ending);
    ending = grown;
  }
  if (head.empty() && data.empty() && !piece.ends) co_return true;
  Reactor& reactor = wire_.worker.thread.reactor();
  const bool together = piece.is_together && head.size() + data.size() <= kTogetherBytesMax;
  if (together) co_await FlushAtTurnEnd(reactor);
  // Unless it is that of the body, which holds for this too.
  if (wire_.read_due == Http1Wire::kNotDue) wire_.client.deadline.Reset();
  auto sending =
      WriteAll(wire_.client, {head, is_chunk ? ChunkHead(data.size(), size) : std::string_view(),
                              data, is_chunk ? kCrlf : std::string_view(), ending});
  if (!sending.Try()) {
    wire_.LimitTaking(piece.within);
    co_await sending;
    wire_.EndTaking();
  }
  const bool sent = sending.await_resume();
  head_memory_.reset();
  if (together) co_await FlushAtTurnEnd(reactor);
  request_.record.bytes_out += head.size() + data.size();
  request_.record.client_gone = !sent;
  co_return sent;
}

Task<Reply::Interim> Http1Reply::SendInterim(const Head& head, std::uint64_t dropped,
                                             std::span<char> room) {
  HeadWriter writer(room.data(), room.size());
  writer.StartResponse(head.status, head.reason);
  writer.CopyFields(head, dropped);
  writer.End();
  if (!writer.ok()) co_return Interim::kUnwritable;
  wire_.LimitTaking(request_.services.bounds.send_timeout);
  const bool sent = co_await WriteAll(wire_.client, {writer.view()});
  wire_.EndTaking();
  RequestRecord& record = request_.record;
  record.bytes_out += writer.view().size();
  if (sent) co_return Interim::kSent;
  // What is sent behind a part of it would be read as the rest.
  record.status = head.status;
  record.client_gone = is_cut_ = true;
  co_return Interim::kGone;
}

void Http1Reply::Cut() {
  is_cut_ = true;
  if (framing_ != Framing::kUntilClose) return;
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(wire_.client.socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace recourse
