// Bytes are read many at a time: beside rules that are spelled out, byte by byte, in texts that end
// where their memory ends, so that a sanitizer sees a read behind it.
#include "proxy/net/http1/head_scanner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/http/control_bytes.h"
#include "proxy/net/http1/message_head.h"

namespace recourse::head_scan_test {
namespace {

constexpr std::size_t kBytesMax = 70;

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

std::vector<char> Exact(std::string_view text) { return {text.begin(), text.end()}; }

TEST(FindControl, FindsTheFirstOneWhereverItStands) {
  for (std::size_t size = 1; size <= kBytesMax; ++size) {
    for (std::size_t from = 0; from <= size; ++from) {
      for (const char c : {'\0', '\r', '\n', '\x1f', '\x7f', '\t', ' ', '\x80', '\xff', 'a'}) {
        for (const std::size_t at : {from, (from + size) / 2, size - 1}) {
          if (at >= size) continue;
          std::vector<char> text(size, 'q');
          text[at] = c;
          // One before the beginning is nobody's.
          if (from > 0) text[from - 1] = '\n';
          const char* const begin = text.data();
          const char* const end = begin + size;
          ASSERT_EQ(FindControl(begin + from, end, begin),
                    std::find_if(begin + from, end, IsControl))
              << size << " " << from << " " << at << " " << int{c};
        }
      }
    }
  }
}

TEST(IsAscii, SeesEachByteThatIsNot) {
  for (std::size_t size = 0; size <= kBytesMax; ++size) {
    std::vector<char> text(size, 'q');
    EXPECT_TRUE(IsAscii({text.data(), size})) << size;
    for (std::size_t at = 0; at < size; ++at) {
      for (const char c : {'\x80', '\xff', '\x7f', '\0'}) {
        text[at] = c;
        ASSERT_EQ(IsAscii({text.data(), size}), static_cast<signed char>(c) >= 0) << size << at;
      }
      text[at] = 'q';
    }
  }
}

// Labels of letters, digits and hyphens, of which none is empty, perhaps one more dot, perhaps a
// port.
bool IsNameAndPort(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  if (colon < text.size()) {
    const std::string_view port = text.substr(colon + 1);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (port.empty() || port.size() > 5 || port.front() == '0') return false;
    if (!std::all_of(port.begin(), port.end(), is_digit)) return false;
    if (std::stoi(std::string(port)) > 65'535) return false;
  }
  std::string_view name = text.substr(0, colon);
  if (name.ends_with('.')) name.remove_suffix(1);
  for (;;) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const auto is_good = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    };
    if (dot == 0 || !std::all_of(name.begin(), name.begin() + dot, is_good)) return false;
    if (dot == name.size()) return true;
    name.remove_prefix(dot + 1);
  }
}

bool IsAuthorityHere(std::string_view text) {
  const std::vector<char> exact = Exact(text);
  return IsAuthority({exact.data(), exact.size()});
}

TEST(Authorities, EachByteAtEachPlaceIsJudgedAsByTheRule) {
  for (std::size_t size = 1; size <= kBytesMax; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(size, 'a');
        text[at] = static_cast<char>(byte);
        if (text.front() == '[') continue;
        ASSERT_EQ(IsAuthorityHere(text), IsNameAndPort(text)) << size << " " << at << " " << byte;
      }
    }
  }
}

TEST(Authorities, DotsColonsAndPortsAreJudgedAsByTheRule) {
  std::mt19937_64 random(4);
  constexpr std::string_view kBytes = "aaaaaaZ09-..::_1";
  std::size_t good = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % kBytesMax, 'a');
    // Few odd bytes, or hardly any text would be good.
    for (std::uint64_t k = random() % 4; k > 0 && !text.empty(); --k) {
      text[random() % text.size()] = kBytes[random() % kBytes.size()];
    }
    if (random() % 2 == 0) text += ":" + std::to_string(random() % 70'000);
    const bool is_good = IsNameAndPort(text);
    good += is_good ? 1 : 0;
    ASSERT_EQ(IsAuthorityHere(text), is_good) << text;
  }
  EXPECT_GT(good, 20'000U);
  EXPECT_LT(good, 180'000U);
}

}  // namespace
}  // namespace recourse::head_scan_test
