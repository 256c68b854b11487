// Reads a head whole and in every prefix, and insists that the verdict does not depend on it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "proxy/net/http1/message_head.h"

namespace recourse {

enum class HeadSide { kRequest, kResponse };

// "ok", "more", or the HTTP status of the error.
inline std::string VerdictOf(const ParseResult& result) {
  if (result.state == ParseState::kComplete) return "ok";
  if (result.state == ParseState::kNeedMore) return "more";
  EXPECT_FALSE(result.error.detail().empty());
  return std::to_string(FactsOf(result.error.code()).http_status);
}

inline ParseResult Parse(HeadSide side, std::string_view bytes, Head& head) {
  return side == HeadSide::kRequest ? ParseRequestHead(bytes, head)
                                    : ParseResponseHead(bytes, "GET", head);
}

// Parses a copy that ends where the heap block ends, so that a sanitizer sees any read behind it.
inline std::string VerdictOfCopy(HeadSide side, std::string_view bytes, std::size_t* size) {
  const std::unique_ptr<char[]> copy(new char[bytes.size()]);
  bytes.copy(copy.get(), bytes.size());
  const auto head = std::make_unique<Head>();
  const ParseResult result = Parse(side, {copy.get(), bytes.size()}, *head);
  *size = head->size;
  return VerdictOf(result);
}

// The verdict on `bytes`; fails the test when some first part of them tells another story.
inline std::string Verdict(HeadSide side, std::string_view bytes) {
  std::size_t size = 0;
  const std::string whole = VerdictOfCopy(side, bytes, &size);
  // Every prefix of ordinary heads; the very long ones in strides, and densely near the end.
  bool was_bad = false;
  for (std::size_t end = 0; end < bytes.size();
       end += end > 2'000 && end + 100 < bytes.size() ? 61 : 1) {
    std::size_t part_size = 0;
    const std::string part = VerdictOfCopy(side, bytes.substr(0, end), &part_size);
    if (whole == "ok" && end >= size) {
      EXPECT_EQ(part, "ok") << "after " << end << " bytes";
      EXPECT_EQ(part_size, size);
    } else if (whole == "ok" || whole == "more") {
      EXPECT_EQ(part, "more") << "after " << end << " bytes";
    } else {
      EXPECT_TRUE(part == whole || (part == "more" && !was_bad))
          << part << " after " << end << " bytes, but in the end " << whole;
      was_bad = was_bad || part == whole;
    }
  }
  return whole;
}

inline std::string RequestVerdict(std::string_view bytes) {
  return Verdict(HeadSide::kRequest, bytes);
}
inline std::string ResponseVerdict(std::string_view bytes) {
  return Verdict(HeadSide::kResponse, bytes);
}

// A POST with a Host and these further lines, each with its CRLF.
inline std::string Post(std::string_view lines) {
  return "POST /orders HTTP/1.1\r\nHost: a\r\n" + std::string(lines) + "\r\n";
}
inline std::string Reply(std::string_view lines) {
  return "HTTP/1.1 200 OK\r\n" + std::string(lines) + "\r\n";
}

// The field of that name, which must be there.
inline const Field& FieldNamed(const Head& head, std::string_view name) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].name == name) return head.fields[i];
  }
  ADD_FAILURE() << "no field " << name;
  return head.fields[0];
}

}  // namespace recourse
