#include "proxy/telemetry/socket_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

namespace recourse {
namespace {

constexpr std::size_t kWordDigits = 8;

// The next of the words between blanks; empty: there is none.
std::string_view NextField(std::string_view& line) {
  const auto begin = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(begin);
  const auto field = line.substr(0, line.find(' '));
  line.remove_prefix(field.size());
  return field;
}

template <class Number>
std::optional<Number> NumberIn(std::string_view text, int base) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "0100007F:1F90": words as they lie in memory, which is the order of the network.
std::optional<Tcp::endpoint> EndpointIn(std::string_view field) {
  const auto colon = std::min(field.find(':'), field.size() - 1);
  const std::string_view address = field.substr(0, colon);
  const auto port = NumberIn<std::uint16_t>(field.substr(colon + 1), 16);
  std::array<unsigned char, 16> bytes{};
  const std::size_t words = address.size() / kWordDigits;
  if (!port || address.size() % kWordDigits != 0 || (words != 1 && words != 4)) return std::nullopt;
  for (std::size_t i = 0; i < words; ++i) {
    const auto word = NumberIn<std::uint32_t>(address.substr(i * kWordDigits, kWordDigits), 16);
    if (!word) return std::nullopt;
    std::memcpy(bytes.data() + i * sizeof *word, &*word, sizeof *word);
  }
  using boost::asio::ip::address_v4, boost::asio::ip::address_v6;
  if (words == 1) {
    return Tcp::endpoint(address_v4({bytes[0], bytes[1], bytes[2], bytes[3]}), *port);
  }
  const address_v6 v6(bytes);
  if (!v6.is_v4_mapped()) return Tcp::endpoint(v6, *port);
  return Tcp::endpoint(address_v4({bytes[12], bytes[13], bytes[14], bytes[15]}), *port);
}

std::optional<TcpSocket> SocketIn(std::string_view line) {
  (void)NextField(line);  // its number
  const std::string_view local = NextField(line), remote = NextField(line);
  for (int skipped = 0; skipped < 4; ++skipped) (void)NextField(line);
  const auto user = NumberIn<std::uint32_t>(NextField(line), 10);
  (void)NextField(line);
  const auto inode = NumberIn<std::uint64_t>(NextField(line), 10);
  if (local.empty() || remote.empty() || !user || !inode) return std::nullopt;
  const auto here = EndpointIn(local), there = EndpointIn(remote);
  // Without inode nobody has it any more, and its user is not told.
  if (!here || !there || there->port() == 0 || *inode == 0) return std::nullopt;
  return TcpSocket{*here, *there, *user, *inode};
}

}  // namespace

std::vector<TcpSocket> ReadSocketTable(std::string_view text, std::size_t most) {
  std::vector<TcpSocket> sockets;
  while (!text.empty() && sockets.size() < most) {
    const auto end = std::min(text.find('\n'), text.size());
    if (const auto socket = SocketIn(text.substr(0, end))) sockets.push_back(*socket);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sockets;
}

std::vector<Unguarded> FindUnguarded(const std::vector<TcpSocket>& sockets,
                                     const std::vector<BackendAddress>& backends,
                                     const Guarded& guarded) {
  std::set<Tcp::endpoint> led;  // ends of clients that the kernel led here
  for (const TcpSocket& socket : sockets) {
    const bool is_led = guarded.redirect_port != 0 && socket.local.port() == guarded.redirect_port;
    if (is_led && socket.user == guarded.user) led.insert(socket.remote);
  }
  std::vector<Unguarded> found;
  for (const TcpSocket& socket : sockets) {
    if (socket.user == guarded.user || led.contains(socket.local)) continue;
    const auto to = std::ranges::find(backends, socket.remote, &BackendAddress::at);
    if (to != backends.end()) found.push_back({to->backend, socket.inode, socket.user});
  }
  return found;
}

}  // namespace recourse
