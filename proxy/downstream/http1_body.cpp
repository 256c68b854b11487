#include "proxy/downstream/http1_body.h"

namespace recourse {

// Reading the body overwrites the head.
void Http1Body::KeepHead() {
  head_copy_.assign(wire_.in.unread().substr(0, request_.head.size));
  RC_CHECK(ParseRequestHead(head_copy_, request_.head).state == ParseState::kComplete);
}

RequestBody::Piece Http1Body::Begin() {
  const Head& head = request_.head;
  ReadBuffer& in = wire_.in;
  Skip();
  is_awaited_ = head.expect_continue && in.begin == in.end;
  decoder_.emplace(head.body, head.content_length, BodyDecoder::Of::kRequest);
  const Piece piece = decoder_->Decode(in);
  if (piece.end == BodyDecoder::End::kMore) pace_.emplace(request_.services.bounds.body_timeout);
  return piece;
}

void Http1Body::Skip() {
  if (!std::exchange(has_begun_, true)) wire_.in.Consume(request_.head.size);
}

Task<RequestBody::Piece> Http1Body::Read(MonoTime latest) {
  ReadBuffer& in = wire_.in;
  const MonoTime began = wire_.Now();
  wire_.LimitReading(std::min(latest, pace_->Until(began)));
  if (!in.memory) in.memory = in.pool->Take();
  const std::size_t room = decoder_->ReadLimit(in.free_size());
  const std::size_t size = co_await ReadSome(wire_.client, in.free_space(), room);
  wire_.read_due = Http1Wire::kNotDue;
  if (size == 0) co_return Piece{{}, BodyDecoder::End::kBad, WhyBroken()};
  wire_.Limit();
  pace_->Took(began, wire_.Now(), size);
  in.end += size;
  co_return decoder_->Decode(in);
}

// The client was too slow, or broke off.
Error Http1Body::WhyBroken() const {
  return wire_.client.deadline.expired()
             ? Error(ErrorCode::kRequestTimeout, "the request's body did not arrive in time")
             : Error(ErrorCode::kMalformedRequest, "the request's body ended too early");
}

Task<bool> Http1Body::Ask() {
  is_awaited_ = false;
  wire_.client.deadline.Arm(wire_.Now() + request_.services.bounds.send_timeout);
  const bool sent = co_await WriteAll(wire_.client, {"HTTP/1.1 100 Continue\r\n\r\n"});
  wire_.client.deadline.Disarm();
  request_.record.client_gone = !sent;
  reply_.MarkCut(!sent);
  co_return sent;
}

// The request is all that came. Then it takes the buffer that it came in along, and is rendered
// into what is free behind it: in a crowd that waits for answers each needs a page less.
std::span<char> Http1Body::FreeRoom() {
  const Head& head = request_.head;
  ReadBuffer& in = wire_.in;
  const std::size_t body = in.unread().size() - head.size;
  const bool is_whole = head.body == BodyKind::kNone
                            ? body == 0
                            : head.body == BodyKind::kLength && body == head.content_length;
  if (!is_whole || in.end > limits::kRelayBufferBytes / 2) return {};
  return {in.free_space(), in.free_size()};
}

}  // namespace recourse
