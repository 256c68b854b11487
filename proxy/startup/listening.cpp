#include "proxy/startup/listening.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "proxy/config/config.h"
#include "proxy/startup/startup.h"

namespace recourse {
namespace {

Tcp::endpoint EndpointOrThrow(const std::string& text, const char* flag) {
  const auto colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  IoError ec;
  const auto address = boost::asio::ip::make_address(host, ec);
  std::uint16_t port = 0;
  const char* const first = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
  const char* const last = text.data() + text.size();
  const auto parsed = std::from_chars(first, last, port);
  if (ec || first == last || parsed.ec != std::errc() || parsed.ptr != last) {
    throw StartupError(kExitUsage, std::string(flag) + ": '" + text +
                                       "' is not ADDRESS:PORT, e.g. 127.0.0.1:19080");
  }
  return {address, port};
}

// Whether who listens on `all` gets what is meant for `one`.
bool Covers(const Tcp::endpoint& all, const Tcp::endpoint& one) {
  return all.address() == one.address() ||
         (all.address().is_unspecified() && (all.address().is_v6() || one.address().is_v4()));
}

}  // namespace

std::string ClashOf(std::span<const std::pair<const char*, Tcp::endpoint>> endpoints) {
  for (std::size_t at = 0; at < endpoints.size(); ++at) {
    const auto& [flag, endpoint] = endpoints[at];
    for (const auto& [earlier, taken] : endpoints.first(at)) {
      if (endpoint.port() == 0 || endpoint.port() != taken.port()) continue;
      if (!Covers(endpoint, taken) && !Covers(taken, endpoint)) continue;
      return fmt::format("{}: port {} is that of {} already; give it another one", flag,
                         endpoint.port(), earlier);
    }
  }
  return {};
}

void ListenOrThrow(const char* flag, const std::string& address,
                   const std::function<void(const Tcp::endpoint&)>& listen) {
  const Tcp::endpoint endpoint = EndpointOrThrow(address, flag);
  try {
    try {
      listen(endpoint);
    } catch (const boost::system::system_error& error) {
      // [::] means everywhere, also where there is no IPv6.
      const bool is_everywhere = endpoint.address().is_v6() && endpoint.address().is_unspecified();
      if (!is_everywhere || error.code() != boost::asio::error::address_family_not_supported) throw;
      listen({boost::asio::ip::address_v4::any(), endpoint.port()});
    }
  } catch (const boost::system::system_error& error) {
    throw StartupError(kExitRuntime, std::string("cannot listen on ") + flag + " " + address +
                                         ": " + error.code().message() +
                                         "; name another address with this flag");
  }
}

void JudgeAddressesOrThrow(std::span<const AddressOfFlag> addresses, Taken taken) {
  std::vector<std::pair<const char*, Tcp::endpoint>> endpoints;
  for (const auto& [flag, address] : addresses) {
    endpoints.emplace_back(flag, EndpointOrThrow(address, flag));
  }
  if (const std::string clash = ClashOf(endpoints); !clash.empty()) {
    throw StartupError(kExitUsage, clash);
  }
  if (taken == Taken::kMayEnd) return;
  for (const auto& [flag, address] : addresses) {
    ListenOrThrow(flag, address, [](const Tcp::endpoint& endpoint) { Socket::BoundTo(endpoint); });
  }
}

}  // namespace recourse
