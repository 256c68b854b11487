#include "proxy/net/http1/head_scanner.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "proxy/base/http/http_message.h"
#include "proxy/base/latest_texts.h"
#include "proxy/net/http1/character_classes.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {
namespace {

bool IsPort(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.front() == '0') return false;
  unsigned port = 0;
  for (const char c : text) {
    const auto digit = static_cast<unsigned>(static_cast<unsigned char>(c)) - '0';
    if (digit > 9) return false;
    port = port * 10 + digit;
  }
  return port <= 65'535;
}

// Letters, digits and hyphens in labels that are not empty; one dot may end the name.
bool IsDottedLabels(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  bool in_label = false;
  for (const char c : text) {
    if (c == '.' ? !in_label : !CharIs(c, kCharHost)) return false;
    in_label = c != '.';
  }
  return in_label;
}

#if defined(__SSE2__)
// A bit for each byte of a text: which may stand in a label, which are dots, which are colons.
struct HostBits {
  static constexpr std::size_t kBytesMax = 64;
  std::uint64_t label = 0, dot = 0, colon = 0;

  void Take(__m128i bytes, std::size_t at) {
    const auto are = [bytes](char c) {
      return static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(c))));
    };
    label |= std::uint64_t{PlainBytes(bytes)} << at;
    dot |= std::uint64_t{are('.')} << at;
    colon |= std::uint64_t{are(':')} << at;
  }
};

HostBits BitsOf(std::string_view text) {
  HostBits bits;
  const auto load = [](const char* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  if (text.size() < 16) {
    char copy[16] = {};
    // Two copies of a size that is known here, which overlap, in place of a call.
    if (text.size() >= 8) {
      const std::size_t behind = text.size() - 8;
      std::memcpy(copy, text.data(), 8);
      std::memcpy(copy + behind, text.data() + behind, 8);
    } else {
      std::copy(text.begin(), text.end(), copy);
    }
    bits.Take(load(copy), 0);
    return bits;
  }
  for (std::size_t at = 0; text.size() - at >= 16; at += 16) bits.Take(load(&text[at]), at);
  // The last sixteen, of which some were taken already.
  bits.Take(load(text.data() + text.size() - 16), text.size() - 16);
  return bits;
}

// As below, of up to 64 bytes at once.
bool IsNameAndPort(std::string_view text) {
  const HostBits bits = BitsOf(text);
  const auto size =
      std::min<std::size_t>(text.size(), static_cast<std::size_t>(std::countr_zero(bits.colon)));
  const std::uint64_t name = size == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << size) - 1;
  const std::uint64_t dots = bits.dot & name;
  const bool is_name =
      size > 0 && ((bits.label | dots) & name) == name && (dots & (dots << 1 | 1)) == 0;
  return is_name && (size == text.size() || IsPort(text.substr(size + 1)));
}
#endif

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
#if defined(__SSE2__)
  if (text.size() <= HostBits::kBytesMax) return IsNameAndPort(text);
#endif
  const std::size_t colon = text.find(':');
  if (!IsDottedLabels(text.substr(0, colon))) return false;
  return colon == std::string_view::npos || IsPort(text.substr(colon + 1));
}

bool IsHostField(std::string_view value) {
  constexpr std::size_t kHostBytes = 62, kHosts = 16;
  return LatestOf<IsAuthority, kHostBytes, kHosts>(value);
}

bool IsFramingTwin(std::string_view name) {
  std::string twin(name);
  std::ranges::replace_if(twin, [](char c) { return !CharIs(c, kCharHost); }, '-');
  const FieldId id = FieldIdOf(twin);
  return id == FieldId::kContentLength || id == FieldId::kTransferEncoding;
}

bool ReadLength(std::string_view text, std::uint64_t& length) {
  if (text.empty() || text.size() > 19 || (text.size() > 1 && text.front() == '0')) return false;
  length = 0;
  for (const char c : text) {
    const auto digit = static_cast<std::uint64_t>(static_cast<unsigned char>(c)) - '0';
    if (digit > 9) return false;
    length = length * 10 + digit;
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
