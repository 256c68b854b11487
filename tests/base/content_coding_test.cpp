#include "proxy/base/http/content_coding.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "proxy/base/limits.h"

namespace recourse::content_coding_test {
namespace {

constexpr int kGzip = 31;
constexpr int kZlib = 15;
constexpr int kRawDeflate = -15;

std::string Deflate(int window_bits, std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

// Text that does not shrink below a tenth.
std::string Varied(std::size_t size) {
  std::string text;
  unsigned state = 7;
  while (text.size() < size) {
    state = state * 1664525 + 1013904223;
    text += std::to_string(state >> 8);
  }
  text.resize(size);
  return text;
}

TEST(ContentCodingTest, GzipAndDeflateGiveWhatWasEncoded) {
  for (const std::string& text :
       {std::string(R"({"id":"ord_1"})"), std::string(), Varied(70'000)}) {
    const std::string gzip = Deflate(kGzip, text);
    for (const char* coding : {"gzip", "x-gzip", "GZIP"}) {
      EXPECT_EQ(DecodeContent(coding, gzip).value_or("<error>"), text);
    }
    EXPECT_EQ(DecodeContent("deflate", Deflate(kZlib, text)).value_or("<error>"), text);
  }
}

TEST(ContentCodingTest, OtherCodingsAndChainsOfThemAreNotRead) {
  const std::string once = Deflate(kGzip, "{}");
  for (const char* coding : {"br", "zstd", "compress", "gzip, gzip", "gzip,", ",gzip",
                             "gzip, identity", "", " gzip", "gzip;q=1"}) {
    EXPECT_FALSE(DecodeContent(coding, once)) << coding;
  }
  // What names a coding must be in it, in the one format that it stands for.
  EXPECT_FALSE(DecodeContent("gzip", Deflate(kZlib, "{}")));
  EXPECT_FALSE(DecodeContent("deflate", once));
  EXPECT_FALSE(DecodeContent("deflate", Deflate(kRawDeflate, "{}")));
  EXPECT_FALSE(DecodeContent("gzip", "{}"));
  EXPECT_FALSE(DecodeContent("gzip", ""));
}

TEST(ContentCodingTest, DataCutAnywhereIsNotReadAsWhole) {
  for (const auto& [coding, bits] : {std::pair("gzip", kGzip), std::pair("deflate", kZlib)}) {
    const std::string whole = Deflate(bits, Varied(300));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(DecodeContent(coding, std::string_view(whole).substr(0, size))) << size;
    }
  }
}

TEST(ContentCodingTest, AnyBitFlippedInTheDataOrItsChecksumIsSeen) {
  const std::string text = R"({"id":"ord_1","total":12})";
  const std::string whole = Deflate(kGzip, text);
  static constexpr std::size_t kHeaderBytes = 10;  // its time and system are told by nobody
  for (std::size_t bit = kHeaderBytes * 8; bit < whole.size() * 8; ++bit) {
    std::string broken = whole;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    // The last bits before the checksum only fill up a byte.
    EXPECT_EQ(DecodeContent("gzip", broken).value_or(text), text) << bit;
  }
}

TEST(ContentCodingTest, NothingMayFollowTheEnd) {
  const std::string first = Deflate(kGzip, R"({"id":1})");
  EXPECT_FALSE(DecodeContent("gzip", first + Deflate(kGzip, R"({"id":2})")));
  EXPECT_FALSE(DecodeContent("gzip", first + "x"));
  EXPECT_FALSE(DecodeContent("gzip", first + std::string(1, '\0')));
  EXPECT_FALSE(DecodeContent("deflate", Deflate(kZlib, "{}") + "x"));
}

TEST(ContentCodingTest, BombsEndAtTheBounds) {
  EXPECT_TRUE(DecodeContent("gzip", Deflate(kGzip, Varied(limits::kDecodedBytesMax))));
  EXPECT_FALSE(DecodeContent("gzip", Deflate(kGzip, Varied(limits::kDecodedBytesMax + 1))));
  const std::string zeros(50'000, '0');
  const std::string small = Deflate(kGzip, zeros);
  ASSERT_LT(small.size() * limits::kDecodedRatioMax, zeros.size());
  EXPECT_FALSE(DecodeContent("gzip", small));
  EXPECT_FALSE(DecodeContent("deflate", Deflate(kZlib, std::string(64 * 1024 * 1024, '0'))));
}

}  // namespace
}  // namespace recourse::content_coding_test
