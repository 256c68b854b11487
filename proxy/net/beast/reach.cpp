#include "proxy/net/beast/reach.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>

namespace recourse {

std::expected<std::vector<boost::asio::ip::address>, std::string> LookUp(const std::string& host) {
  boost::asio::io_context context;
  Tcp::resolver resolver(context);
  IoError ec;
  const auto found = resolver.resolve(host, "", ec);
  if (ec) return std::unexpected(host + " does not resolve: " + ec.message());
  std::vector<boost::asio::ip::address> addresses;
  for (const auto& one : found) {
    const auto address = one.endpoint().address();
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  return addresses;
}

std::expected<void, std::string> Reach(const Tcp::endpoint& endpoint, Millis patience) {
  const Socket socket = Socket::For(endpoint.protocol());
  if (!socket.is_open()) return std::unexpected(std::strerror(errno));
  const auto size = static_cast<socklen_t>(endpoint.size());
  int error = ::connect(socket.fd(), endpoint.data(), size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd one{socket.fd(), POLLOUT, 0};
    socklen_t error_size = sizeof error;
    error = ETIMEDOUT;
    if (::poll(&one, 1, static_cast<int>(patience.count())) == 1) {
      ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &error_size);
    }
  }
  if (error != 0) return std::unexpected(std::strerror(error));
  return {};
}

}  // namespace recourse
