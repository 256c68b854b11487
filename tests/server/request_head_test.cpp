#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "proxy/exchange/request_facts.h"

namespace recourse::request_head_test {
namespace {

constexpr std::string_view kTrace = "0123456789abcdef0123456789abcdef";

// What a request with that traceparent has for its trace id.
std::string TraceOf(const std::string& traceparent) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\ntraceparent: " + traceparent + "\r\n\r\n";
  const auto head = std::make_unique<Head>();
  EXPECT_EQ(ParseRequestHead(bytes, *head).state, ParseState::kComplete);
  return std::string(TraceIdOf(*head));
}

TEST(TraceId, IsReadFromATraceparentThatIsLongEnough) {
  const std::string whole = "00-" + std::string(kTrace) + "-00f067aa0ba902b7-01";
  EXPECT_EQ(TraceOf(whole), kTrace);
  EXPECT_EQ(TraceOf(whole + "-more"), kTrace);
  EXPECT_EQ(TraceOf(whole.substr(0, whole.size() - 1)), "");
  EXPECT_EQ(TraceOf(""), "");
}

TEST(TraceId, IsNoneWhenAnyDigitIsNotLowerCaseHex) {
  for (std::size_t at = 0; at < kTrace.size(); ++at) {
    for (int byte = '!'; byte < 0x7f; ++byte) {
      const char c = static_cast<char>(byte);
      std::string trace(kTrace);
      trace[at] = c;
      const bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      ASSERT_EQ(TraceOf("00-" + trace + "-00f067aa0ba902b7-01"), is_hex ? trace : "") << c << at;
    }
  }
}

}  // namespace
}  // namespace recourse::request_head_test
