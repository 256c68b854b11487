#include <algorithm>

#include "proxy/base/hex.h"
#include "proxy/net/http1/character_classes.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {
namespace {

constexpr int kSizeDigitsMax = 16;  // what 64 bits hold

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

}  // namespace

ChunkDecoder::Step ChunkDecoder::Feed(std::string_view in) {
  Step step;
  while (step.consumed < in.size() && at_ != At::kDone) {
    if (at_ == At::kData) {
      const auto size =
          static_cast<std::size_t>(std::min<std::uint64_t>(left_, in.size() - step.consumed));
      step.data = in.substr(step.consumed, size);
      step.consumed += size;
      left_ -= size;
      if (left_ == 0) at_ = At::kDataCr;
      return step;
    }
    const std::string_view problem = TakeFraming(in[step.consumed]);
    if (!problem.empty()) {
      at_ = At::kBad;
      step.bad = true;
      step.error = Error(trailer_bytes_ > limits::kTrailerBytesMax ? ErrorCode::kHeaderTooLarge
                                                                   : ErrorCode::kMalformedRequest,
                         problem);
      return step;
    }
    ++step.consumed;
    ++framing_bytes_;
  }
  step.done = at_ == At::kDone;
  return step;
}

std::string_view ChunkDecoder::TakeFraming(char c) {
  switch (at_) {
    case At::kDataCr:
      at_ = At::kDataLf;
      return c == '\r' ? std::string_view() : "chunk data without CRLF";
    case At::kDataLf:
      at_ = At::kSize;
      left_ = 0;
      digits_ = 0;
      line_bytes_ = 0;
      return c == '\n' ? std::string_view() : "chunk data without CRLF";
    case At::kTrailerStart:
    case At::kTrailerName:
    case At::kTrailerValue:
    case At::kTrailerLf:
    case At::kEndLf:
      if (++trailer_bytes_ > limits::kTrailerBytesMax) return "trailers too large";
      return TakeTrailer(c);
    case At::kBad:
      return "chunked framing is broken";
    default:
      if (++line_bytes_ > limits::kChunkLineBytesMax) return "chunk line too long";
      return TakeSizeLine(c);
  }
}

// chunk-size [ chunk-ext ] CRLF. Extensions are read past, never passed on.
std::string_view ChunkDecoder::TakeSizeLine(char c) {
  if (at_ == At::kSizeLf) {
    at_ = left_ == 0 ? At::kTrailerStart : At::kData;
    return c == '\n' ? std::string_view() : "bare CR in a chunk line";
  }
  if (at_ == At::kSize) {
    if (const int value = HexValue(c); value >= 0) {
      left_ = left_ << 4 | static_cast<unsigned>(value);
      return ++digits_ <= kSizeDigitsMax ? std::string_view() : "chunk size out of range";
    }
    if (digits_ == 0) return "bad chunk size";
    if (c != '\r' && c != ';') return "bad chunk size";
    at_ = c == ';' ? At::kExtension : At::kSizeLf;
    return {};
  }
  // A line end inside quotes has two readings ("funky chunks").
  if (c == '\r' && at_ == At::kExtension) {
    at_ = At::kSizeLf;
    return {};
  }
  if (IsControl(c)) return "control character in a chunk extension";
  if (at_ == At::kQuotedEscape) {
    at_ = At::kQuoted;
  } else if (c == '"') {
    at_ = at_ == At::kQuoted ? At::kExtension : At::kQuoted;
  } else if (c == '\\' && at_ == At::kQuoted) {
    at_ = At::kQuotedEscape;
  }
  return {};
}

// Trailers are dropped, but only what is field lines may be dropped: anything else could be a
// request that someone else sees here.
std::string_view ChunkDecoder::TakeTrailer(char c) {
  switch (at_) {
    case At::kTrailerStart:
      if (c == '\r') {
        at_ = At::kEndLf;
        return {};
      }
      at_ = At::kTrailerName;
      return CharIs(c, kCharToken) ? std::string_view() : "bad trailer";
    case At::kTrailerName:
      if (c == ':') at_ = At::kTrailerValue;
      return c == ':' || CharIs(c, kCharToken) ? std::string_view() : "bad trailer";
    case At::kTrailerValue:
      if (c == '\r') {
        at_ = At::kTrailerLf;
        return {};
      }
      return IsControl(c) ? "control character in a trailer" : std::string_view();
    case At::kTrailerLf:
      at_ = At::kTrailerStart;
      return c == '\n' ? std::string_view() : "bare CR in a trailer";
    default:
      at_ = At::kDone;
      return c == '\n' ? std::string_view() : "bare CR in a trailer";
  }
}

}  // namespace recourse
