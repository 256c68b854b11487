#include "proxy/net/message/body_decoder.h"

#include <cstring>

namespace recourse {

void ReadBuffer::Compact() {
  if (begin == 0) return;
  std::memmove(memory.get(), memory.get() + begin, end - begin);
  end -= begin;
  begin = 0;
}

BodyDecoder::Piece BodyDecoder::Decode(ReadBuffer& buffer) {
  std::string_view data = buffer.unread();
  switch (kind_) {
    case BodyKind::kNone:
      return {{}, End::kComplete};
    case BodyKind::kUntilClose:
      buffer.Consume(data.size());
      return {data, End::kMore};
    case BodyKind::kLength:
      data = data.substr(0, left_);
      left_ -= data.size();
      buffer.Consume(data.size());
      return {data, left_ == 0 ? End::kComplete : End::kMore};
    case BodyKind::kChunked:
      return DecodeChunks(buffer);
  }
  return {{}, End::kBad, Error(ErrorCode::kMalformedRequest, "unknown framing")};
}

BodyDecoder::Piece BodyDecoder::DecodeChunks(ReadBuffer& buffer) {
  // Data of several chunks is moved together, so that it goes on in one write.
  char* const start = buffer.memory.get() + buffer.begin;
  std::size_t size = 0;
  Piece piece;
  while (piece.end == End::kMore && buffer.begin != buffer.end) {
    const auto step = chunks_.Feed(buffer.unread());
    if (step.bad) {
      piece.end = End::kBad;
      piece.error = step.error;
      break;
    }
    if (!step.data.empty()) {
      if (step.data.data() != start + size)
        std::memmove(start + size, step.data.data(), step.data.size());
      size += step.data.size();
    }
    buffer.Consume(step.consumed);
    if (step.done) piece.end = End::kComplete;
  }
  data_bytes_ += size;
  if (of_ == Of::kRequest && chunks_.framing_bytes() > 4 * data_bytes_ + kFramingSlack) {
    piece.end = End::kBad;
    piece.error = Error(ErrorCode::kRequestTooLarge, "the body is sent in too many small chunks");
  }
  piece.data = {start, size};
  return piece;
}

}  // namespace recourse
