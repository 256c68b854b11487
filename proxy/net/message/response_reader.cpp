#include "proxy/net/message/response_reader.h"

#include <algorithm>

#include "proxy/base/crash_point.h"

namespace recourse {
namespace {

Error Lost(const UpstreamStream& stream) {
  if (stream.expired()) {
    return Error(ErrorCode::kBackendTimeout, "no answer in time", Delivery::kUncertain);
  }
  return Error(ErrorCode::kBackendReset, "the backend closed the connection without an answer",
               Delivery::kUncertain);
}

}  // namespace

Task<Result<void>> ReadResponseHead(UpstreamStream& stream, ReadBuffer& buffer,
                                    std::string_view method, ObjectPool<Head>& heads,
                                    PooledHead& head, bool* saw_bytes, Interim interim) {
  InterimBudget budget;
  for (;;) {
    ParseResult parsed;
    if (buffer.begin != buffer.end) {
      if (!head) head = heads.Take();  // while nothing came, each of a crowd goes without
      parsed = ParseResponseHead(buffer.unread(), method, *head);
    }
    if (parsed.state == ParseState::kBad) {
      co_return std::unexpected(
          Error(ErrorCode::kBackendProtocol, parsed.error.detail(), Delivery::kUncertain));
    }
    if (parsed.state == ParseState::kComplete) {
      if (head->status >= 200 || interim == Interim::kReturn) co_return Result<void>();
      if (head->status == 101) {
        co_return std::unexpected(Error(ErrorCode::kBackendProtocol,
                                        "the backend switched protocols unasked",
                                        Delivery::kUncertain));
      }
      buffer.Consume(head->size);
      if (!budget.Take(*head)) {
        co_return std::unexpected(
            Error(ErrorCode::kBackendProtocol, kTooManyInterim, Delivery::kUncertain));
      }
      continue;
    }
    if (buffer.free_size() == 0) buffer.Compact();
    if (buffer.free_size() == 0) break;
    const std::size_t size = co_await stream.Read(buffer);
    if (size == 0) co_return std::unexpected(Lost(stream));
    buffer.end += size;
    *saw_bytes = true;
  }
  co_return std::unexpected(
      Error(ErrorCode::kBackendProtocol, "the answer's head is too large", Delivery::kUncertain));
}

namespace {

// The end of an answer's body, as reading it found out.
struct BodyEnd {
  bool complete = false;
  bool until_close = false;
};

// Hands out a body piece by piece: empty when it has ended, see `end`.
class BodyReader {
 public:
  BodyReader(UpstreamStream& stream, ReadBuffer& buffer, const Head& head)
      : stream_(stream),
        buffer_(buffer),
        decoder_(head.body, head.content_length, BodyDecoder::Of::kAnswer) {}

  Task<std::string_view> Next() {
    while (!has_ended_) {
      const auto piece = decoder_.Decode(buffer_);
      has_ended_ = piece.end != BodyDecoder::End::kMore;
      end_.complete = piece.end == BodyDecoder::End::kComplete;
      if (!piece.data.empty()) co_return piece.data;
      if (has_ended_) break;
      const std::size_t size =
          co_await stream_.Read(buffer_, decoder_.ReadLimit(buffer_.free_size()));
      if (size > 0) {
        buffer_.end += size;
        continue;
      }
      end_.until_close = decoder_.Ended(stream_.HasEndedCleanly()) == BodyDecoder::End::kClosed;
      has_ended_ = true;
    }
    co_return std::string_view();
  }
  bool has_ended() const { return has_ended_; }
  const BodyEnd& end() const { return end_; }

 private:
  UpstreamStream& stream_;
  ReadBuffer& buffer_;
  BodyDecoder decoder_;
  BodyEnd end_;
  bool has_ended_ = false;
};

}  // namespace

bool AnswerRoom::Has(std::size_t bytes) const {
  if (keeper == nullptr || bytes <= limits::kAnswerFirstBytes) return true;
  // What is stored is held a second time, in the row that it becomes.
  const std::size_t in_row = bytes <= limits::kAnswerKeptBytesMax ? bytes : 0;
  return keeper->Hold(HeldFor::kAnswer, bytes + in_row);
}

namespace {

// All of an answer whose length is known: of many that are read at once some then have room, where
// each would wait with a part of it otherwise.
std::size_t SizeToHold(const Head& head, std::size_t bytes_max, std::size_t arrived) {
  if (head.body != BodyKind::kLength) return arrived;
  return static_cast<std::size_t>(std::min<std::uint64_t>(head.content_length, bytes_max));
}

}  // namespace

Task<bool> AnswerRoom::Wait(std::size_t bytes, const UpstreamStream& stream) const {
  const MonoTime end = thread.clock().Now() + limits::kAnswerRoomFor;
  while (!Has(bytes)) {
    const MonoTime now = thread.clock().Now();
    if (now >= end || stream.expired()) co_return false;
    co_await thread.SleepUntil(now + limits::kAnswerRoomLook);
  }
  co_return true;
}

Task<void> ReadBody(UpstreamStream& stream, ReadBuffer& buffer, const Head& head,
                    std::size_t bytes_max, AnswerRoom room, Answer& answer) {
  BodyReader reader(stream, buffer, head);
  std::string& body = answer.response.body;
  answer.body_complete = false;
  std::size_t held = 0;
  for (;;) {
    const std::string_view piece = co_await reader.Next();
    const std::size_t left = bytes_max - body.size();
    if (body.size() + piece.size() > held) {
      held = SizeToHold(head, bytes_max, body.size() + piece.size());
      answer.over_cap = !room.Has(held) && !co_await room.Wait(held, stream);
      if (answer.over_cap) co_return;
    }
    body.append(piece.substr(0, left));
    answer.over_cap = piece.size() > left;
    if (answer.over_cap) co_return;
    if (reader.has_ended()) break;
    if (!body.empty()) RC_CRASH_POINT("k09");
  }
  answer.body_complete = reader.end().complete;
  answer.until_close = reader.end().until_close;
}

namespace {

// Adds a piece to what is held of a body, as long as all of it can be.
void HoldPiece(std::string_view piece, std::size_t bytes_max, const AnswerRoom& room,
               std::size_t in_relay, Answer& answer) {
  std::string& body = answer.response.body;
  if (answer.over_cap) return;
  if (body.size() + piece.size() <= bytes_max && room.Has(body.size() + piece.size() + in_relay)) {
    body.append(piece);
    return;
  }
  answer.over_cap = true;
  std::string().swap(body);
}

}  // namespace

Task<void> RelayBody(AnswerRelay& relay, UpstreamStream& stream, ReadBuffer& buffer,
                     const Head& head, std::size_t bytes_max, AnswerRoom room, MonoTime deadline,
                     Answer& answer) {
  BodyDecoder decoder(head.body, head.content_length, BodyDecoder::Of::kAnswer);
  answer.body_complete = false;
  for (;;) {
    const auto piece = decoder.Decode(buffer);
    HoldPiece(piece.data, bytes_max, room, relay.held(), answer);
    if (piece.end != BodyDecoder::End::kMore) {
      answer.body_complete = piece.end == BodyDecoder::End::kComplete;
      if (answer.relayed) relay.Keep(piece.data);
      co_return;
    }
    if (!piece.data.empty() || !answer.relayed) {
      answer.relayed = true;
      const std::size_t held = answer.response.body.size() + relay.held() + piece.data.size();
      const MonoTime began = room.thread.clock().Now();
      co_await relay.Pass(piece.data, room.Has(held) ? limits::kRelayQueuedBytesMax : 0);
      const auto waited = room.thread.clock().Now() - began;
      if (waited > MonoTime::duration::zero()) stream.Arm(deadline += waited);
    }
    RC_CRASH_POINT("k09");
    const std::size_t size = co_await stream.Read(buffer, decoder.ReadLimit(buffer.free_size()));
    if (size == 0) break;
    buffer.end += size;
  }
  answer.timed_out = stream.expired();
  answer.until_close = decoder.Ended(stream.HasEndedCleanly()) == BodyDecoder::End::kClosed;
}

Task<void> ReadBodyInto(BodySink& sink, UpstreamStream& stream, ReadBuffer& buffer,
                        const Head& head, AnswerRoom room, Answer& answer) {
  BodyReader reader(stream, buffer, head);
  answer.body_complete = false;
  for (;;) {
    const std::string_view piece = co_await reader.Next();
    const std::size_t size = sink.kept() + piece.size();
    if (!room.Has(size) && !co_await room.Wait(size, stream)) {
      sink.NoRoom();
      co_return;
    }
    if (!piece.empty() && !co_await sink.Take(answer.response, piece)) co_return;
    if (reader.has_ended()) break;
    RC_CRASH_POINT("k09");
  }
  answer.body_complete = reader.end().complete;
  answer.until_close = reader.end().until_close;
}

}  // namespace recourse
