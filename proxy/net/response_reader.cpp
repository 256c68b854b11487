#include "proxy/net/response_reader.h"

#include "proxy/base/crash_point.h"

namespace recourse {
namespace {

Error Lost(const Connection& connection) {
  if (connection.deadline.expired()) {
    return Error(ErrorCode::kBackendTimeout, "no answer in time", Delivery::kUncertain);
  }
  return Error(ErrorCode::kBackendReset, "the backend closed the connection without an answer",
               Delivery::kUncertain);
}

}  // namespace

Task<Result<void>> ReadResponseHead(Connection& connection, ReadBuffer& buffer,
                                    std::string_view method, Head& head, bool* saw_bytes,
                                    Interim interim) {
  InterimBudget budget;
  for (;;) {
    const ParseResult parsed = buffer.begin == buffer.end
                                   ? ParseResult{}
                                   : ParseResponseHead(buffer.unread(), method, head);
    if (parsed.state == ParseState::kBad) {
      co_return std::unexpected(
          Error(ErrorCode::kBackendProtocol, parsed.error.detail(), Delivery::kUncertain));
    }
    if (parsed.state == ParseState::kComplete) {
      if (head.status >= 200 || interim == Interim::kReturn) co_return Result<void>();
      if (head.status == 101) {
        co_return std::unexpected(Error(ErrorCode::kBackendProtocol,
                                        "the backend switched protocols unasked",
                                        Delivery::kUncertain));
      }
      buffer.Consume(head.size);
      if (!budget.Take(head)) {
        co_return std::unexpected(
            Error(ErrorCode::kBackendProtocol, kTooManyInterim, Delivery::kUncertain));
      }
      continue;
    }
    if (buffer.free_size() == 0) buffer.Compact();
    if (buffer.free_size() == 0) break;
    const std::size_t size = co_await ReadSome(connection, buffer.free_space(), buffer.free_size());
    if (size == 0) co_return std::unexpected(Lost(connection));
    buffer.end += size;
    *saw_bytes = true;
  }
  co_return std::unexpected(
      Error(ErrorCode::kBackendProtocol, "the answer's head is too large", Delivery::kUncertain));
}

Task<void> ReadBody(Connection& connection, ReadBuffer& buffer, const Head& head,
                    std::size_t bytes_max, Answer& answer) {
  BodyDecoder decoder(head.body, head.content_length, BodyDecoder::Of::kAnswer);
  std::string& body = answer.response.body;
  answer.body_complete = false;
  for (;;) {
    const auto piece = decoder.Decode(buffer);
    const std::size_t room = bytes_max - body.size();
    body.append(piece.data.substr(0, room));
    answer.over_cap = piece.data.size() > room;
    if (answer.over_cap) co_return;
    if (piece.end != BodyDecoder::End::kMore) {
      answer.body_complete = piece.end == BodyDecoder::End::kComplete;
      co_return;
    }
    if (!body.empty()) RC_CRASH_POINT("k09");
    if (!piece.data.empty()) continue;
    const std::size_t size =
        co_await ReadSome(connection, buffer.free_space(), decoder.ReadLimit(buffer.free_size()));
    if (size == 0) {
      const bool clean = connection.error == boost::asio::error::eof || !connection.error;
      answer.until_close = decoder.Ended(clean) == BodyDecoder::End::kClosed;
      co_return;
    }
    buffer.end += size;
  }
}

}  // namespace recourse
