#include "proxy/net/message/body_decoder.h"

#include <gtest/gtest.h>

#include <cstring>

namespace recourse::body_decoder_test {
namespace {

// Those of a thread that does not run.
struct Buffers {
  SystemClock clock;
  DeadlineWheel wheel{clock.Now()};
  PeriodicTasks upkeep{wheel, clock};
  BufferPool pool{upkeep};
};

using End = BodyDecoder::End;

// Feeds `wire` in pieces of `step` bytes and collects what comes out.
struct Decoded {
  std::string data;
  End end = End::kMore;
  Error error;
  std::string rest;
};

Decoded Decode(BodyKind kind, std::uint64_t length, std::string_view wire, std::size_t step) {
  Buffers buffers;
  ReadBuffer buffer{buffers.pool.Take()};
  BodyDecoder decoder(kind, length);
  Decoded result;
  while (result.end == End::kMore && !wire.empty()) {
    const std::size_t size = std::min(step, wire.size());
    std::memcpy(buffer.free_space(), wire.data(), size);
    buffer.end += size;
    wire.remove_prefix(size);
    const auto piece = decoder.Decode(buffer);
    result.data.append(piece.data);
    result.end = piece.end;
    result.error = piece.error;
  }
  result.rest.assign(buffer.unread()).append(wire);
  return result;
}

class BodyDecoderStep : public ::testing::TestWithParam<std::size_t> {};

TEST_P(BodyDecoderStep, ALengthBodyEndsExactlyAtItsLengthAndLeavesTheNextRequest) {
  const auto got = Decode(BodyKind::kLength, 5, "helloGET / HTTP/1.1\r\n", GetParam());
  EXPECT_EQ(got.data, "hello");
  EXPECT_EQ(got.end, End::kComplete);
  EXPECT_EQ(got.rest, "GET / HTTP/1.1\r\n");
}

TEST_P(BodyDecoderStep, AChunkedBodyIsJoinedAndItsTrailersAreDropped) {
  const auto got =
      Decode(BodyKind::kChunked, 0, "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-Tenant: evil\r\n\r\nNEXT",
             GetParam());
  EXPECT_EQ(got.data, "abcdefg");
  EXPECT_EQ(got.end, End::kComplete);
  EXPECT_EQ(got.rest, "NEXT");
}

TEST_P(BodyDecoderStep, BrokenChunkFramingIsBad) {
  EXPECT_EQ(Decode(BodyKind::kChunked, 0, "3\r\nabcX0\r\n\r\n", GetParam()).end, End::kBad);
  EXPECT_EQ(Decode(BodyKind::kChunked, 0, "3\nabc\r\n0\r\n\r\n", GetParam()).end, End::kBad);
}

TEST_P(BodyDecoderStep, ABodyWithoutFramingGoesOnUntilTheConnectionEnds) {
  const auto got = Decode(BodyKind::kUntilClose, 0, "some text", GetParam());
  EXPECT_EQ(got.data, "some text");
  EXPECT_EQ(got.end, End::kMore);
}

INSTANTIATE_TEST_SUITE_P(Steps, BodyDecoderStep, ::testing::Values(1, 2, 3, 7, 1000));

TEST(BodyDecoderTest, TheEndOfTheConnectionIsOnlyTrustedWithoutFramingAndWithoutError) {
  EXPECT_EQ(BodyDecoder(BodyKind::kUntilClose, 0).Ended(true), End::kClosed);
  EXPECT_EQ(BodyDecoder(BodyKind::kUntilClose, 0).Ended(false), End::kCut);
  EXPECT_EQ(BodyDecoder(BodyKind::kLength, 3).Ended(true), End::kCut);
  EXPECT_EQ(BodyDecoder(BodyKind::kChunked, 0).Ended(true), End::kCut);
}

TEST(BodyDecoderTest, ManyTinyChunksEndAtTheFramingCap) {
  std::string wire;
  for (int i = 0; i < 100'000; ++i) wire += "1\r\na\r\n";
  const auto got = Decode(BodyKind::kChunked, 0, wire, 8192);
  EXPECT_EQ(got.end, End::kBad);
  EXPECT_EQ(got.error.code(), ErrorCode::kRequestTooLarge);
}

TEST(BodyDecoderTest, AServerMayFlushEveryByte) {
  Buffers buffers;
  ReadBuffer buffer{buffers.pool.Take()};
  BodyDecoder decoder(BodyKind::kChunked, 0, BodyDecoder::Of::kAnswer);
  std::size_t size = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::memcpy(buffer.free_space(), "1\r\na\r\n", 6);
    buffer.end += 6;
    const auto piece = decoder.Decode(buffer);
    ASSERT_EQ(piece.end, End::kMore);
    size += piece.data.size();
  }
  EXPECT_EQ(size, 200'000U);
}

TEST(BodyDecoderTest, BadFramingSaysWhatIsWrongWithIt) {
  const auto chunk = Decode(BodyKind::kChunked, 0, "0x3\r\nabc\r\n0\r\n\r\n", 1000);
  EXPECT_EQ(chunk.error.code(), ErrorCode::kMalformedRequest);
  EXPECT_EQ(chunk.error.detail(), "bad chunk size");
  std::string trailers = "0\r\n";
  for (int i = 0; i < 2'000; ++i) trailers += "X-T: y\r\n";
  EXPECT_EQ(Decode(BodyKind::kChunked, 0, trailers, 1000).error.code(), ErrorCode::kHeaderTooLarge);
}

TEST(BodyDecoderTest, TheSizeOfAChunkIsKnownBeforeItsDataCame) {
  Buffers buffers;
  ReadBuffer buffer{buffers.pool.Take()};
  BodyDecoder decoder(BodyKind::kChunked, 0);
  const std::string_view wire = "ffffffff\r\nab";
  std::memcpy(buffer.free_space(), wire.data(), wire.size());
  buffer.end = wire.size();
  EXPECT_EQ(decoder.announced(), 0U);
  EXPECT_EQ(decoder.Decode(buffer).data, "ab");
  EXPECT_EQ(decoder.announced(), 0xffffffffU - 2);
  EXPECT_EQ(BodyDecoder(BodyKind::kLength, 7).announced(), 7U);
}

}  // namespace
}  // namespace recourse::body_decoder_test
