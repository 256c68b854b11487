#include "proxy/net/head_scan.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "proxy/base/http_message.h"
#include "proxy/net/http_chars.h"
#include "proxy/net/http_head.h"

namespace recourse {
namespace {

bool IsPort(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.front() == '0') return false;
  unsigned port = 0;
  for (const char c : text) {
    if (!CharIs(c, kCharDigit)) return false;
    port = port * 10 + static_cast<unsigned>(c - '0');
  }
  return port <= 65'535;
}

// Letters, digits and hyphens in labels that are not empty; one dot may end the name.
bool IsHostName(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  bool in_label = false;
  for (const char c : text) {
    if (c == '.' ? !in_label : !CharIs(c, kCharHost)) return false;
    in_label = c != '.';
  }
  return in_label;
}

bool IsIpv6(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> copy{};
  if (text.size() >= copy.size() || text.find('\0') != std::string_view::npos) return false;
  std::copy(text.begin(), text.end(), copy.begin());
  in6_addr address;
  return inet_pton(AF_INET6, copy.data(), &address) == 1;
}

}  // namespace

bool IsAuthority(std::string_view text) {
  if (text.size() > limits::kHostBytesMax) return false;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos || !IsIpv6(text.substr(1, close - 1))) return false;
    const std::string_view rest = text.substr(close + 1);
    return rest.empty() || (rest.front() == ':' && IsPort(rest.substr(1)));
  }
  const std::size_t colon = text.find(':');
  if (!IsHostName(text.substr(0, colon))) return false;
  return colon == std::string_view::npos || IsPort(text.substr(colon + 1));
}

bool IsAscii(std::string_view text) {
  // Eight bytes at a time: every call has a traceparent or a token to look through.
  std::uint64_t high_bits = 0;
  for (; text.size() >= sizeof high_bits; text.remove_prefix(sizeof high_bits)) {
    std::uint64_t word;
    std::memcpy(&word, text.data(), sizeof word);
    high_bits |= word;
  }
  for (const char c : text) high_bits |= static_cast<unsigned char>(c);
  return (high_bits & 0x8080'8080'8080'8080) == 0;
}

std::string_view TrimBlanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool ReadLength(std::string_view text, std::uint64_t& length) {
  if (text.empty() || text.size() > 19 || (text.size() > 1 && text.front() == '0')) return false;
  length = 0;
  for (const char c : text) {
    if (!CharIs(c, kCharDigit)) return false;
    length = length * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

bool HasListComma(std::string_view value) {
  if (value.find(',') == std::string_view::npos) return false;
  bool in_quotes = false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '"') in_quotes = !in_quotes;
    if (value[i] == '\\' && in_quotes) ++i;
    if (i < value.size() && value[i] == ',' && !in_quotes) return true;
  }
  return false;
}

int KeepAliveTimeout(std::string_view value) {
  static constexpr std::string_view kName = "timeout";
  static constexpr int kDay = 24 * 60 * 60;
  while (!value.empty()) {
    const std::size_t comma = std::min(value.find(','), value.size());
    const std::string_view part = TrimBlanks(value.substr(0, comma));
    value.remove_prefix(std::min(comma + 1, value.size()));
    const std::size_t equals = part.find('=');
    if (equals != kName.size() || !EqualsIgnoreCase(part.substr(0, equals), kName)) continue;
    int seconds = -1;
    const char* const end = part.data() + part.size();
    const auto [after, ec] = std::from_chars(part.data() + equals + 1, end, seconds);
    if (ec == std::errc::result_out_of_range) return kDay;
    return ec == std::errc() && after == end && seconds >= 0 ? std::min(seconds, kDay) : -1;
  }
  return -1;
}

}  // namespace recourse
