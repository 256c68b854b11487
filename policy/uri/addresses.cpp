#include "policy/uri/addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "proxy/base/latest_texts.h"

namespace recourse {
namespace {

constexpr int kMappedBits = 96;

struct NamedRange {
  AddressRange range;
  AddressClass address_class;
};

AddressRange KnownRange(std::string_view text) { return *ParseAddressRange(text); }

// The first that matches decides; what matches none is public.
const std::vector<NamedRange>& NamedRanges() {
  using enum AddressClass;
  static const std::vector<NamedRange> kRanges{
      {KnownRange("169.254.169.254"), kMetadata},  // most clouds
      {KnownRange("169.254.170.2"), kMetadata},    // AWS ECS tasks
      {KnownRange("169.254.170.23"), kMetadata},   // AWS EKS pods
      {KnownRange("fd00:ec2::254"), kMetadata},    // AWS
      {KnownRange("fd00:ec2::23"), kMetadata},     // AWS EKS pods
      {KnownRange("fd20:ce::254"), kMetadata},     // Google
      {KnownRange("100.100.100.200"), kMetadata},  // Alibaba
      {KnownRange("192.0.0.192"), kMetadata},      // Oracle
      {KnownRange("168.63.129.16"), kMetadata},    // Azure
      {KnownRange("0.0.0.0/8"), kUnspecified},
      {KnownRange("127.0.0.0/8"), kLoopback},
      {KnownRange("169.254.0.0/16"), kLinkLocal},
      {KnownRange("10.0.0.0/8"), kPrivate},
      {KnownRange("172.16.0.0/12"), kPrivate},
      {KnownRange("192.168.0.0/16"), kPrivate},
      {KnownRange("100.64.0.0/10"), kPrivate},
      {KnownRange("224.0.0.0/4"), kMulticast},
      {KnownRange("240.0.0.0/4"), kBroadcast},
      {KnownRange("::"), kUnspecified},
      {KnownRange("::1"), kLoopback},
      {KnownRange("fe80::/10"), kLinkLocal},
      {KnownRange("ff00::/8"), kMulticast},
      {KnownRange("fc00::/7"), kPrivate},
      {KnownRange("fec0::/10"), kPrivate},
  };
  return kRanges;
}

// The IPv4 address that an IPv6 one stands for, in mapped form; the address itself otherwise.
IpAddress Unwrap(const IpAddress& address) {
  static const AddressRange kNat64 = KnownRange("64:ff9b::/96");
  static const AddressRange kLocalNat64 = KnownRange("64:ff9b:1::/48");
  static const AddressRange kSixToFour = KnownRange("2002::/16");
  static const AddressRange kTeredo = KnownRange("2001::/32");
  static const AddressRange kCompatible = KnownRange("::/96");
  const auto mapped = [&](std::size_t at, std::uint8_t flip) {
    IpAddress out = KnownRange("0.0.0.0").first;
    for (std::size_t i = 0; i < 4; ++i) {
      out.bytes[12 + i] = static_cast<std::uint8_t>(address.bytes[at + i] ^ flip);
    }
    return out;
  };
  if (kNat64.Contains(address) || kLocalNat64.Contains(address)) return mapped(12, 0);
  if (kSixToFour.Contains(address)) return mapped(2, 0);
  if (kTeredo.Contains(address)) return mapped(12, 0xff);
  const bool is_own = KnownRange("::").Contains(address) || KnownRange("::1").Contains(address);
  if (kCompatible.Contains(address) && !is_own) return mapped(12, 0);
  return address;
}

constexpr std::size_t kAddressBytes = sizeof(IpAddress::bytes);

// Of an address as its bytes.
AddressClass ClassOfBytes(std::string_view bytes) {
  IpAddress address;
  std::ranges::copy(bytes, address.bytes.begin());
  const IpAddress real = Unwrap(address);
  const auto& ranges = NamedRanges();
  const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const NamedRange& named) {
    return named.range.Contains(real);
  });
  return found == ranges.end() ? AddressClass::kPublic : found->address_class;
}

}  // namespace

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  const std::string name(text);
  IpAddress out;
  in_addr v4{};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) {
    out.bytes[10] = out.bytes[11] = 0xff;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&v4.s_addr);
    std::copy(bytes, bytes + 4, out.bytes.begin() + 12);
    return out;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, name.c_str(), &v6) != 1) return std::nullopt;
  std::copy(std::begin(v6.s6_addr), std::end(v6.s6_addr), out.bytes.begin());
  return out;
}

AddressClass ClassOf(const IpAddress& address) {
  constexpr std::size_t kAddresses = 64;
  return LatestOf<ClassOfBytes, kAddressBytes, kAddresses>(
      {reinterpret_cast<const char*>(address.bytes.data()), kAddressBytes});
}

std::string_view NameOf(AddressClass address_class) {
  switch (address_class) {
    case AddressClass::kPublic:
      return "a public address";
    case AddressClass::kPrivate:
      return "a private address";
    case AddressClass::kLoopback:
      return "a loopback address";
    case AddressClass::kLinkLocal:
      return "a link-local address";
    case AddressClass::kMetadata:
      return "a cloud metadata address";
    case AddressClass::kUnspecified:
      return "an unspecified address";
    case AddressClass::kMulticast:
      return "a multicast address";
    case AddressClass::kBroadcast:
      break;
  }
  return "a broadcast or reserved address";
}

bool AddressRange::Contains(const IpAddress& address) const {
  for (int i = 0; i < 16; ++i) {
    const int bits_here = std::clamp(bits - 8 * i, 0, 8);
    const auto mask = static_cast<std::uint8_t>(0xff00 >> bits_here);
    const auto at = static_cast<std::size_t>(i);
    if (((first.bytes[at] ^ address.bytes[at]) & mask) != 0) return false;
  }
  return true;
}

std::optional<AddressRange> ParseAddressRange(std::string_view text) {
  const auto slash = text.find('/');
  const auto first = ParseIpAddress(text.substr(0, slash));
  if (!first) return std::nullopt;
  AddressRange range{*first, 128};
  if (slash == std::string_view::npos) return range;
  const std::string_view digits = text.substr(slash + 1);
  const int base = text.substr(0, slash).find(':') == std::string_view::npos ? kMappedBits : 0;
  int bits = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const bool is_number = ec == std::errc() && end == digits.data() + digits.size() &&
                         digits[0] != '-' && (digits.size() == 1 || digits[0] != '0');
  if (!is_number || bits > 128 - base) return std::nullopt;
  range.bits = base + bits;
  // 10.1.2.3/8 is a slip of the pen more often than it is meant.
  for (int bit = range.bits; bit < 128; ++bit) {
    const auto byte = range.first.bytes[static_cast<std::size_t>(bit / 8)];
    if (((byte >> (7 - bit % 8)) & 1) != 0) return std::nullopt;
  }
  return range;
}

bool AddressRules::Allow(const IpAddress& address) const {
  const AddressClass kind = ClassOf(address);
  const IpAddress real = Unwrap(address);
  switch (kind) {
    case AddressClass::kUnspecified:
    case AddressClass::kMulticast:
    case AddressClass::kBroadcast:
      return false;
    default:
      break;
  }
  if (kind != AddressClass::kMetadata &&
      std::find(classes.begin(), classes.end(), kind) != classes.end()) {
    return true;
  }
  return std::any_of(ranges.begin(), ranges.end(), [&](const AddressRange& range) {
    return range.Contains(real) && (kind != AddressClass::kMetadata || range.bits == 128);
  });
}

}  // namespace recourse
