// Names of fields are read sixteen bytes at a time: every byte at every place of names of every
// length up to two such steps and more, beside a rule that is spelled out.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "proxy/net/http1/message_head.h"

namespace recourse::field_name_test {
namespace {

constexpr std::size_t kNameBytesMax = 36;

// RFC 9110 5.6.2.
bool MayStandInName(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

TEST(FieldNames, EachByteAtEachPlaceOfANameIsReadAsOneByOne) {
  const auto head = std::make_unique<Head>();
  for (std::size_t size = 1; size <= kNameBytesMax; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string name(size, 'q');
        name[at] = static_cast<char>(byte);
        const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n" + name + ": v\r\n\r\n";
        const bool ends_name = byte == ':' && at > 0;
        const bool is_good = ends_name || MayStandInName(static_cast<char>(byte));
        const ParseState state = ParseRequestHead(bytes, *head).state;
        ASSERT_EQ(state, is_good ? ParseState::kComplete : ParseState::kBad)
            << "byte " << byte << " at " << at << " of " << size;
        if (!is_good) continue;
        ASSERT_EQ(head->field_count, 2U);
        ASSERT_EQ(head->fields[1].name, ends_name ? name.substr(0, at) : name);
      }
    }
  }
}

TEST(FieldNames, ANameIsTheSameWhereverTheBytesThatCameEnd) {
  const auto head = std::make_unique<Head>();
  const std::string bytes =
      "GET / HTTP/1.1\r\nHost: a\r\nX-Quite-A-Long-Name-Of-A-Field: v\r\n\r\n";
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A piece of its own, so that a sanitizer sees a read behind its end.
    const std::string piece = bytes.substr(0, size);
    ASSERT_EQ(ParseRequestHead(piece, *head).state, ParseState::kNeedMore) << size;
  }
  ASSERT_EQ(ParseRequestHead(bytes, *head).state, ParseState::kComplete);
}

}  // namespace
}  // namespace recourse::field_name_test
