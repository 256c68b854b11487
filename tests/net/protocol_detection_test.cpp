// What a client speaks, told by its first bytes: whole, cut anywhere, and broken.
#include "proxy/net/message/protocol_detection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/base/limits.h"

namespace recourse::first_bytes_test {
namespace {

std::string Number(std::size_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}
std::string Vector(const std::string& content, int length_bytes) {
  return Number(content.size(), length_bytes) + content;
}
std::string Extension(std::size_t type, const std::string& data) {
  return Number(type, 2) + Vector(data, 2);
}
std::string ServerName(const std::string& name) {
  return Extension(0, Vector(Number(0, 1) + Vector(name, 2), 2));
}

// A ClientHello message with those extensions; "none": without the field.
std::string Hello(const std::string& extensions, const std::string& session = {}) {
  std::string body = "\x03\x03" + std::string(32, 'r') + Vector(session, 1) +
                     Vector(std::string("\x13\x01\x13\x02", 4), 2) +
                     Vector(std::string(1, '\0'), 1);
  if (extensions != "none") body += Vector(extensions, 2);
  return Number(1, 1) + Vector(body, 3);
}
std::string Record(const std::string& content) { return "\x16\x03\x01" + Vector(content, 2); }
std::string InRecordsOf(const std::string& message, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < message.size(); at += size) out += Record(message.substr(at, size));
  return out;
}

const std::string kSupported = Extension(43, std::string("\x02\x03\x04", 3));
const std::string kGood = Record(Hello(ServerName("Api.Example.com") + kSupported));

void ExpectBadTls(const std::string& bytes) {
  const ProtocolDetection read = ReadFirstBytes(bytes);
  EXPECT_TRUE(read.is_complete);
  EXPECT_EQ(read.opening, ClientOpening::kBadTls) << testing::PrintToString(bytes.substr(0, 80));
  EXPECT_FALSE(read.problem.empty());
}

TEST(FirstBytesTest, AClientHelloTellsItsServerName) {
  for (const std::string& bytes :
       {kGood, kGood + "\x14\x03\x03\x01\x01 early data may follow",
        Record(Hello(kSupported + ServerName("api.example.com"), std::string(32, 's')))}) {
    const ProtocolDetection read = ReadFirstBytes(bytes);
    ASSERT_TRUE(read.is_complete);
    EXPECT_EQ(read.opening, ClientOpening::kTls);
    EXPECT_EQ(read.server_name, "api.example.com");
  }
}

TEST(FirstBytesTest, AClientHelloMayNameNoServer) {
  for (const std::string& extensions : {kSupported, std::string(), std::string("none")}) {
    const ProtocolDetection read = ReadFirstBytes(Record(Hello(extensions)));
    ASSERT_TRUE(read.is_complete) << extensions;
    EXPECT_EQ(read.opening, ClientOpening::kTls);
    EXPECT_EQ(read.server_name, "");
  }
}

TEST(FirstBytesTest, AClientHelloIsTheSameInWhateverRecordsItComes) {
  const std::string message = Hello(ServerName("api.example.com") + kSupported);
  for (std::size_t size = 1; size <= message.size(); ++size) {
    const ProtocolDetection read = ReadFirstBytes(InRecordsOf(message, size));
    ASSERT_TRUE(read.is_complete) << size;
    EXPECT_EQ(read.opening, ClientOpening::kTls) << size;
    EXPECT_EQ(read.server_name, "api.example.com") << size;
  }
}

TEST(FirstBytesTest, PartsOfWhatIsReadNeedMore) {
  const std::string message = Hello(ServerName("api.example.com"));
  for (const std::string& whole : {kGood, InRecordsOf(message, 7), std::string("POST /"),
                                   std::string("\r\n\r\nGET h"), std::string("PRI * HTTP/2")}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(ReadFirstBytes(whole.substr(0, size)).is_complete) << whole << " " << size;
    }
    EXPECT_TRUE(ReadFirstBytes(whole).is_complete) << whole;
  }
}

TEST(FirstBytesTest, BrokenTlsIsNoTls) {
  const std::string good = Hello(ServerName("a.example"));
  std::string long_body = good;
  long_body[3] = static_cast<char>(long_body[3] + 1);
  std::string odd_ciphers = good;
  odd_ciphers[4 + 2 + 32 + 1 + 1] = 3;
  std::string other_major = good;
  other_major[4] = 2;
  const std::vector<std::string> cases{
      Record(""),                      // empty record
      "\x16\x03\x01\x40\x01",          // a record over 16 KiB
      std::string("\x16\x99garbage"),  // some servers take it for TLS
      std::string("\x16\x02\x03"),
      Record("\x02" + good.substr(1)),  // a ServerHello
      Record(good + "x"),               // more in the hello's record
      Record(good + good),              //
      Record(good).substr(0, 5) + good.substr(0, 3) + Number(0xffff, 3),  // too long to keep
      Record(long_body) + Record("x"),  // its extensions are shorter than it
      Record(odd_ciphers),              //
      Record(other_major),              //
      Record(Hello(ServerName("a.example") + ServerName("a.example"))),
      Record(Hello(ServerName(""))),
      Record(Hello(ServerName("a.example."))),
      Record(Hello(ServerName("a..example"))),
      Record(Hello(ServerName(std::string("a\0b", 3)))),
      Record(Hello(ServerName("a b"))),
      Record(Hello(ServerName("a.example\r\nX: y"))),
      Record(Hello(ServerName(std::string(254, 'a')))),
      Record(Hello(Extension(0, ""))),
      Record(Hello(Extension(0, Vector(Number(1, 1) + Vector("a", 2), 2)))),  // another type
      Record(
          Hello(Extension(0, Vector(Number(0, 1) + Vector("a", 2) + Number(0, 1) + Vector("b", 2),
                                    2)))),  // two names
      Record(Hello("\x01")),
      Record(good.substr(0, 20)) + "\x17\x03\x03\x01\x01 x",  // another record inside
      Record(good.substr(0, 20)) + "\x16\x02\x03\x01\x01 x",
  };
  for (const std::string& bytes : cases) ExpectBadTls(bytes);
}

TEST(FirstBytesTest, AClientHelloHasABound) {
  const auto padded = [](std::size_t padding) {
    return Hello(ServerName("a.example") + Extension(21, std::string(padding, 'p')));
  };
  const std::size_t overhead = padded(0).size() + 5;
  const std::string most = Record(padded(limits::kOpeningBytesMax - overhead));
  ASSERT_EQ(most.size(), limits::kOpeningBytesMax);
  EXPECT_EQ(ReadFirstBytes(most).opening, ClientOpening::kTls);
  EXPECT_FALSE(ReadFirstBytes(most.substr(0, most.size() - 1)).is_complete);
  // In records of one byte each it is complete only behind the bound.
  const std::string message = padded(limits::kOpeningBytesMax / 6);
  ExpectBadTls(InRecordsOf(message, 1));
  ExpectBadTls(InRecordsOf(message, 1).substr(0, limits::kOpeningBytesMax));
  EXPECT_FALSE(
      ReadFirstBytes(InRecordsOf(message, 1).substr(0, limits::kOpeningBytesMax - 1)).is_complete);
}

TEST(FirstBytesTest, RequestsAreToldByMethodAndTarget) {
  for (const char* bytes : {"GET / HTTP/1.1\r\n", "POST /", "\r\nGET /",
                            "\r\n\r\nDELETE http://a/ HTTP/1.1", "OPTIONS * HTTP/1.1", "PRIVATE /x",
                            "PRI /x", "M-SEARCH * HTTP/1.1", "CONNECT a:443 HTTP/1.1", "get /"}) {
    const ProtocolDetection read = ReadFirstBytes(bytes);
    EXPECT_TRUE(read.is_complete) << bytes;
    EXPECT_EQ(read.opening, ClientOpening::kHttp) << bytes;
  }
}

TEST(FirstBytesTest, TheHttp2PrefaceIsNoRequest) {
  const ProtocolDetection read = ReadFirstBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_TRUE(read.is_complete);
  EXPECT_EQ(read.opening, ClientOpening::kHttp2);
}

TEST(FirstBytesTest, EverythingElseIsSomethingElse) {
  for (const std::string& bytes :
       {std::string("\0\0\0\x08\x04\xd2\x16\x2f", 8), std::string("\x80\x2e\x01"),
        std::string("\x15\x03\x01\x00\x02\x02\x28", 7), std::string("*1\r\n$4\r\nPING\r\n"),
        std::string("\n"), std::string(" GET /"), std::string("\r\rGET /"),
        std::string("\r\n\r\n\r\nGET /"), std::string("GET\t/"), std::string("GET  /"),
        std::string(limits::kMethodBytesMax + 1, 'A')}) {
    const ProtocolDetection read = ReadFirstBytes(bytes);
    EXPECT_TRUE(read.is_complete) << testing::PrintToString(bytes);
    EXPECT_EQ(read.opening, ClientOpening::kOther) << testing::PrintToString(bytes);
    EXPECT_FALSE(read.problem.empty());
  }
}

}  // namespace
}  // namespace recourse::first_bytes_test
