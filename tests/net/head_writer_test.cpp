// What goes on the wire is rendered anew and checked.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/net/head_cases.h"

namespace recourse::head_writer_test {
namespace {

using namespace std::string_literals;

class HeadWriterRules : public testing::Test {
 protected:
  std::array<char, 64 * 1024> buffer_;
  HeadWriter writer_{buffer_.data(), buffer_.size()};
  Head head_;

  void Read(const std::string& bytes) {
    ASSERT_EQ(ParseRequestHead(bytes, head_).state, ParseState::kComplete);
  }
};

TEST_F(HeadWriterRules, ARequestIsRenderedInOrder) {
  writer_.StartRequest("POST", "/orders?x=1");
  writer_.Add("Host", "a:1");
  writer_.Add("X-Empty", "");
  writer_.ContentLength(18'446'744'073'709'551'615U);
  writer_.ConnectionClose();
  writer_.End();
  EXPECT_TRUE(writer_.ok());
  EXPECT_EQ(writer_.view(),
            "POST /orders?x=1 HTTP/1.1\r\nHost: a:1\r\nX-Empty: \r\n"
            "Content-Length: 18446744073709551615\r\nConnection: close\r\n\r\n");
}

TEST_F(HeadWriterRules, AFieldThatIsRenderedOnceIsCheckedOnce) {
  const FieldLine host("Host", "a:1");
  EXPECT_EQ(host.text(), "Host: a:1\r\n");
  writer_.StartRequest("GET", "/");
  writer_.Add(host);
  writer_.End();
  EXPECT_TRUE(writer_.ok());
  EXPECT_EQ(writer_.view(), "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n");
  for (const FieldLine& bad :
       {FieldLine("Host", "a\r\nEvil: 1"), FieldLine("Ho st", "a"), FieldLine("", "a"),
        FieldLine("Content-Length", "1"), FieldLine("transfer-encoding", "chunked")}) {
    HeadWriter other(buffer_.data(), buffer_.size());
    other.StartRequest("GET", "/");
    other.Add(bad);
    EXPECT_FALSE(other.ok());
  }
}

TEST_F(HeadWriterRules, TheFirstLineThatWasReadGoesOn) {
  const std::string request = "PATCH /a%20b?c=d HTTP/1.0\r\nHost: a\r\n\r\n";
  Read(request);
  writer_.StartRequest(head_);
  EXPECT_EQ(writer_.view(), "PATCH /a%20b?c=d HTTP/1.1\r\n");
  for (const std::string reason : {"Not Found", "", "\xe4h"}) {
    const std::string response = "HTTP/1.0 404 " + reason + "\r\n\r\n";
    ASSERT_EQ(ParseResponseHead(response, "GET", head_).state, ParseState::kComplete);
    HeadWriter writer(buffer_.data(), buffer_.size());
    writer.StartResponse(head_);
    EXPECT_EQ(writer.view(), "HTTP/1.1 404 " + reason + "\r\n");
  }
}

TEST_F(HeadWriterRules, AResponseIsRenderedInOrder) {
  writer_.StartResponse(207, "");
  writer_.Chunked();
  writer_.End();
  EXPECT_TRUE(writer_.ok());
  EXPECT_EQ(writer_.view(), "HTTP/1.1 207 \r\nTransfer-Encoding: chunked\r\n\r\n");
}

TEST_F(HeadWriterRules, WhatIsWrittenCanBeReadBack) {
  writer_.StartRequest("PUT", "/x");
  writer_.Add("Host", "a");
  writer_.ContentLength(7);
  writer_.End();
  const std::string bytes(writer_.view());
  Read(bytes);
  EXPECT_EQ(head_.method, "PUT");
  EXPECT_EQ(head_.content_length, 7U);
  EXPECT_EQ(head_.size, bytes.size());
}

TEST_F(HeadWriterRules, F23_NothingThatSplitsAMessageIsWritten) {
  const std::vector<std::string> bad_values = {"a\rb",  "a\nb", "a\r\nX: y",
                                               "a\0b"s, "\x7f", "\x01"};
  const auto refuses = [&](auto&& write) {
    HeadWriter writer(buffer_.data(), buffer_.size());
    write(writer);
    return !writer.ok();
  };
  for (const std::string& bad : bad_values) {
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.Add("X", bad); })) << bad;
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.Add(bad, "x"); })) << bad;
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.StartRequest("GET", "/" + bad); })) << bad;
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.StartRequest(bad, "/"); })) << bad;
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.StartResponse(200, bad); })) << bad;
  }
  for (const char* name : {"", "a b", "a:", "\xc3\xa9", "(x)"}) {
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.Add(name, "x"); })) << name;
  }
  for (const char* target : {"", "/ ", "/\xc3\xa9", "/#x", "/\\"}) {
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.StartRequest("GET", target); })) << target;
  }
  for (const int status : {0, 99, 1'000, -1, 1'000'000}) {
    EXPECT_TRUE(refuses([&](HeadWriter& w) { w.StartResponse(status, "X"); })) << status;
  }
  EXPECT_FALSE(refuses([&](HeadWriter& w) { w.Add("X", "caf\xc3\xa9\tx"); }));
}

TEST_F(HeadWriterRules, F22_FramingIsWrittenOnceAndNeverByName) {
  for (const char* name : {"Content-Length", "transfer-encoding", "CONTENT-LENGTH"}) {
    HeadWriter writer(buffer_.data(), buffer_.size());
    writer.Add(name, "5");
    EXPECT_FALSE(writer.ok()) << name;
  }
  writer_.ContentLength(1);
  EXPECT_TRUE(writer_.ok());
  writer_.Chunked();
  EXPECT_FALSE(writer_.ok());
}

TEST_F(HeadWriterRules, F22_H02_CopiesLeaveOutHopFieldsFramingAndWhatIsDropped) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nConnection: x-hop\r\nX-Hop: 1\r\n"
      "Content-Length: 3\r\nX-A:1\r\nX-B: 2\r\nTE: trailers\r\nVia: 1.1 b\r\nX-C: 3\r\n\r\n";
  Read(bytes);
  writer_.CopyFields(head_, Bit(FieldId::kHost) | Bit(FieldId::kVia));
  EXPECT_TRUE(writer_.ok());
  EXPECT_EQ(writer_.view(), "Accept: */*\r\nX-A:1\r\nX-B: 2\r\nX-C: 3\r\n");
}

TEST_F(HeadWriterRules, H12_OrderCaseAndDuplicatesAreKept) {
  const std::string bytes =
      "GET / HTTP/1.1\r\nHost: a\r\ncookie: 1\r\nCOOKIE: 2\r\nx-A: b\r\nCookie: 3\r\n\r\n";
  Read(bytes);
  writer_.CopyFields(head_, 0);
  EXPECT_EQ(writer_.view(), "Host: a\r\ncookie: 1\r\nCOOKIE: 2\r\nx-A: b\r\nCookie: 3\r\n");
}

TEST_F(HeadWriterRules, OddBlanksAroundAValueAreNotCopied) {
  const std::string bytes =
      "GET / HTTP/1.1\r\nHost:   a  \r\nX: \t 1\t\r\nY:\t2\r\nZ:   \r\nW:\r\nV: 3 4\r\n\r\n";
  Read(bytes);
  writer_.CopyFields(head_, 0);
  EXPECT_TRUE(writer_.ok());
  EXPECT_EQ(writer_.view(), "Host: a\r\nX: 1\r\nY:\t2\r\nZ: \r\nW:\r\nV: 3 4\r\n");
}

TEST_F(HeadWriterRules, AChangedTableIsRenderedAsItSays) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nY: 2\r\nZ: 3\r\n\r\n";
  Read(bytes);
  const std::string other = "changed";
  head_.fields[2] = head_.fields[3];
  head_.fields[1].value = other;
  head_.field_count = 3;
  writer_.CopyFields(head_, 0);
  EXPECT_EQ(writer_.view(), "Host: a\r\nX: changed\r\nZ: 3\r\n");
}

TEST_F(HeadWriterRules, WhatDoesNotFitIsNotOk) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n";
  Read(bytes);
  const auto write = [&](std::size_t capacity) {
    HeadWriter writer(buffer_.data(), capacity);
    writer.StartRequest("GET", "/");
    writer.CopyFields(head_, 0);
    writer.End();
    EXPECT_LE(writer.view().size(), capacity);
    return writer.ok();
  };
  EXPECT_TRUE(write(bytes.size()));
  for (std::size_t capacity = 0; capacity < bytes.size(); ++capacity) EXPECT_FALSE(write(capacity));
}

}  // namespace
}  // namespace recourse::head_writer_test
