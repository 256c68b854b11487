// Which addresses a backend may have. Checked when the policy is read and again at every
// connection, because a name may lead somewhere else by then. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// IPv6, or IPv4 in its mapped form ::ffff:a.b.c.d.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// "10.0.0.7" or "fd00::7", without brackets and zone. Nothing but the one usual form of IPv4.
std::optional<IpAddress> ParseIpAddress(std::string_view text);

enum class AddressClass : std::uint8_t {
  kPublic,
  kPrivate,      // RFC 1918, RFC 6598, unique and site local IPv6: normal in clusters
  kLoopback,     // this pod: its admin API, its neighbours
  kLinkLocal,    // the node and what it serves
  kMetadata,     // credentials of the cloud's machine
  kUnspecified,  // "this host" to most kernels
  kMulticast,
  kBroadcast,  // and the reserved rest of IPv4
};

// An IPv4 address in a form of IPv6 (mapped, compatible, NAT64, 6to4, Teredo) is what it is in
// IPv4.
AddressClass ClassOf(const IpAddress& address);

// "169.254.169.254 is a metadata address": the middle of a sentence, with an article.
std::string_view NameOf(AddressClass address_class);

struct AddressRange {
  IpAddress first;
  int bits = 128;  // of the prefix, counted in the 16 bytes

  bool Contains(const IpAddress& address) const;
};

// "10.0.0.0/8", "fd00::/8" or one address. Empty when it is none, or has bits set after its prefix.
std::optional<AddressRange> ParseAddressRange(std::string_view text);

// The `addresses` of a backend. Without that word: public and private ones.
struct AddressRules {
  std::vector<AddressClass> classes{AddressClass::kPublic, AddressClass::kPrivate};
  std::vector<AddressRange> ranges;

  // A metadata address counts only when it is listed by itself: it is never meant by a range.
  // Unspecified, multicast and broadcast addresses are never allowed.
  bool Allow(const IpAddress& address) const;
};

}  // namespace recourse
