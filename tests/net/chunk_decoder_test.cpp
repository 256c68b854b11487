// Chunked bodies (corpus 4-H, F10-F13 and H31-H44). Each body is fed whole, byte by byte and cut
// in two at every place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/net/http1/message_head.h"

namespace recourse::chunk_decoder_test {
namespace {

using namespace std::string_literals;

struct Outcome {
  std::string data;
  std::string end = "more";  // done, more, or the HTTP status of the error
  std::size_t consumed = 0;

  bool operator==(const Outcome&) const = default;
};

// Feeds the pieces one after the other, as a connection would deliver them.
Outcome Feed(const std::vector<std::string_view>& pieces) {
  ChunkDecoder decoder;
  Outcome outcome;
  for (const std::string_view piece : pieces) {
    for (std::string_view rest = piece; !rest.empty() && outcome.end == "more";) {
      const ChunkDecoder::Step step = decoder.Feed(rest);
      EXPECT_TRUE(step.consumed > 0 || step.bad);
      if (!step.data.empty()) {
        EXPECT_GE(step.data.data(), rest.data());
        EXPECT_LE(step.data.data() + step.data.size(), rest.data() + step.consumed);
      }
      outcome.data += step.data;
      outcome.consumed += step.consumed;
      rest.remove_prefix(step.consumed);
      if (step.done) outcome.end = "done";
      if (step.bad) outcome.end = std::to_string(FactsOf(step.error.code()).http_status);
    }
  }
  EXPECT_EQ(decoder.framing_bytes(), outcome.consumed - outcome.data.size());
  return outcome;
}

Outcome Decode(const std::string& body) {
  const std::string_view view = body;
  const Outcome whole = Feed({view});
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < view.size(); ++i) bytes.push_back(view.substr(i, 1));
  EXPECT_EQ(Feed(bytes), whole);
  for (std::size_t cut = 1; cut < view.size(); cut += view.size() > 2'000 ? 97 : 1) {
    EXPECT_EQ(Feed({view.substr(0, cut), view.substr(cut)}), whole) << "cut at " << cut;
  }
  return whole;
}

TEST(ChunkDecoderRules, ChunksAreJoinedAndWhatFollowsIsLeftAlone) {
  const std::string body = "5\r\nhello\r\n6\r\n world\r\n00A\r\n0123456789\r\n0\r\n\r\n";
  const Outcome outcome = Decode(body + "GET / HTTP/1.1\r\n");
  EXPECT_EQ(outcome.end, "done");
  EXPECT_EQ(outcome.data, "hello world0123456789");
  EXPECT_EQ(outcome.consumed, body.size());
  EXPECT_EQ(Decode("0\r\n\r\n").end, "done");
  EXPECT_EQ(Decode("a\r\n\r\n0\r\n\r\n0123\r\n0\r\n\r\n").data, "\r\n0\r\n\r\n012");
}

TEST(ChunkDecoderRules, F17_AnUnfinishedBodyIsNeverDone) {
  const std::string body = "5\r\nhello\r\n0\r\nA: b\r\n\r\n";
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_EQ(Feed({std::string_view(body).substr(0, size)}).end, "more");
  }
}

TEST(ChunkDecoderRules, F11_H31_SizesArePlainHexDigits) {
  for (const char* size : {"0x3", " 3", "3 ", "-3", "+3", "0_3", "", "g", "\t3", "3\t", "\"3\""}) {
    EXPECT_EQ(Decode(size + "\r\nabc\r\n0\r\n\r\n"s).end, "400") << size;
  }
  EXPECT_EQ(Decode("3\r\nabc\r\n\r\n0\r\n\r\n").end, "400");
}

TEST(ChunkDecoderRules, F11_H32_SizesOfMoreThanSixteenDigitsAreRefused) {
  EXPECT_EQ(Decode("10000000000000003\r\nabc\r\n0\r\n\r\n").end, "400");
  EXPECT_EQ(Decode("00000000000000003\r\nabc\r\n0\r\n\r\n").end, "400");
  EXPECT_EQ(Decode("0000000000000003\r\nabc\r\n0\r\n\r\n").end, "done");
  EXPECT_EQ(Decode("ffffffffffffffff\r\nabc").end, "more");
}

TEST(ChunkDecoderRules, H34_DataEndsWithCrlf) {
  for (const char* body : {"3\r\nabc0\r\n\r\n", "3\r\nabcd\r\n", "3\r\nabc\n0\r\n\r\n",
                           "3\r\nabc\r0\r\n\r\n", "3\r\nabc\r\r\n0\r\n\r\n"}) {
    EXPECT_EQ(Decode(body).end, "400") << body;
  }
}

TEST(ChunkDecoderRules, F10_H35_BareLineFeedsAreRefusedAtOnce) {
  for (const char* body : {"3\n", "3;x\n", "0\n", "0\r\n\n", "0\r\nA: b\n", "3\r\nabc\n", "\n"}) {
    EXPECT_EQ(Decode(body).end, "400") << body;
  }
}

TEST(ChunkDecoderRules, F12_ExtensionsAreReadPast) {
  for (const char* extension :
       {";a", ";a=b", ";a=\"b;c\"", ";a=\"q\\\"\"", ";;", "; a = b", ";\xff"}) {
    const Outcome outcome = Decode("3"s + extension + "\r\nabc\r\n0" + extension + "\r\n\r\n");
    EXPECT_EQ(outcome.end, "done") << extension;
    EXPECT_EQ(outcome.data, "abc");
  }
}

TEST(ChunkDecoderRules, F12_H37_LineEndsInsideExtensionsAreRefused) {
  for (const std::string& extension : {";a=\"b\r\nc\""s, ";a=\"b\nc\""s, ";a\nb"s, ";a\rb"s,
                                       ";a\0"s, ";a=\"\\\r\n\""s, ";\x7f"s}) {
    EXPECT_EQ(Decode("3" + extension + "\r\nabc\r\n0\r\n\r\n").end, "400") << extension;
  }
}

TEST(ChunkDecoderRules, F12_H38_ExtensionsAreBounded) {
  // "3;" and CRLF are four bytes of the line.
  const std::size_t longest = limits::kChunkLineBytesMax - 4;
  EXPECT_EQ(Decode("3;" + std::string(longest, 'x') + "\r\nabc\r\n0\r\n\r\n").end, "done");
  EXPECT_EQ(Decode("3;" + std::string(longest + 1, 'x') + "\r\nabc\r\n0\r\n\r\n").end, "400");
  const Outcome endless = Decode("3;" + std::string(5'000, 'x'));
  EXPECT_EQ(endless.end, "400");
  EXPECT_EQ(endless.consumed, limits::kChunkLineBytesMax);
}

TEST(ChunkDecoderRules, F13_H41_H43_TrailersAreDropped) {
  const Outcome outcome =
      Decode("1\r\nx\r\n0\r\nX-Tenant: evil\r\nContent-Length: 5\r\nEmpty:\r\n\r\nnext");
  EXPECT_EQ(outcome.end, "done");
  EXPECT_EQ(outcome.data, "x");
}

TEST(ChunkDecoderRules, F13_TrailersMustBeFieldLines) {
  for (const std::string& trailer :
       {"GET / HTTP/1.1\r\n"s, ": x\r\n"s, " folded\r\n"s, "A: b\r\n c\r\n"s, "A\r\n"s,
        "A : b\r\n"s, "A: b\rc\r\n"s, "A: \0\r\n"s, "A: b\r\r\n"s, "\xc3\xa9: b\r\n"s}) {
    EXPECT_EQ(Decode("0\r\n" + trailer + "\r\n").end, "400") << trailer;
  }
}

TEST(ChunkDecoderRules, F13_H44_TrailersAreBounded) {
  std::string trailers;
  while (trailers.size() + 12 <= limits::kTrailerBytesMax) trailers += "abcd: efg\r\n";
  EXPECT_EQ(Decode("0\r\n" + trailers + "\r\n").end, "done");
  EXPECT_EQ(Decode("0\r\n" + trailers + trailers).end, "431");
  EXPECT_EQ(Decode("0\r\nA: " + std::string(20'000, 'x')).end, "431");
}

TEST(ChunkDecoderRules, H40_FramingIsCounted) {
  std::string body;
  for (int i = 0; i < 1'000; ++i) body += "1\r\nx\r\n";
  const Outcome outcome = Decode(body);
  EXPECT_EQ(outcome.data.size(), 1'000U);
  EXPECT_EQ(outcome.consumed - outcome.data.size(), 5'000U);
}

TEST(ChunkDecoderRules, ABrokenDecoderStaysBroken) {
  ChunkDecoder decoder;
  EXPECT_TRUE(decoder.Feed("zz").bad);
  EXPECT_TRUE(decoder.Feed("0\r\n\r\n").bad);
}

TEST(ChunkDecoderRules, ADoneDecoderTakesNothing) {
  ChunkDecoder decoder;
  EXPECT_TRUE(decoder.Feed("0\r\n\r\n").done);
  const ChunkDecoder::Step step = decoder.Feed("more");
  EXPECT_TRUE(step.done);
  EXPECT_EQ(step.consumed, 0U);
}

}  // namespace
}  // namespace recourse::chunk_decoder_test
