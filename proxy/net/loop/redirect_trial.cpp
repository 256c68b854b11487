#include "proxy/net/loop/redirect_trial.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <optional>

#include "proxy/net/loop/connection.h"

namespace recourse {
namespace {

namespace net = boost::asio;

constexpr Millis kTry{250};

// One family of addresses.
struct Family {
  const char* loopback;
  const char* beyond;
};
constexpr std::array kFamilies{Family{"127.0.0.1", "192.0.2.1"}, Family{"::1", "2001:db8::1"}};

class Landing {
 public:
  explicit Landing(net::io_context& context) : acceptor_(context) {}

  boost::system::error_code Open(const Tcp::endpoint& at) {
    boost::system::error_code error;
    acceptor_.open(at.protocol(), error);
    if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
    if (!error) acceptor_.non_blocking(true, error);
    return error;
  }

  // Whether a connection to `beyond` comes in here.
  bool IsReachedBy(net::io_context& context, const Tcp::endpoint& beyond) {
    boost::system::error_code error;
    Tcp::socket client(context);
    client.open(beyond.protocol(), error);
    if (!error) client.non_blocking(true, error);
    if (error) return false;
    // Under way, or refused at once; Asio's own would wait for its end.
    (void)::connect(client.native_handle(), beyond.data(), static_cast<socklen_t>(beyond.size()));
    const std::uint16_t mine = client.local_endpoint(error).port();
    if (error) return false;
    pollfd waiting{.fd = acceptor_.native_handle(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(kTry.count())) <= 0) return false;
    Tcp::endpoint from;
    const Tcp::socket accepted = acceptor_.accept(from, error);
    return !error && from.port() == mine;
  }

 private:
  Tcp::acceptor acceptor_;
};

}  // namespace

std::expected<bool, std::string> IsLedTo(std::uint16_t landing, std::uint16_t port,
                                         Millis longest) {
  net::io_context context;
  std::array<std::optional<Landing>, kFamilies.size()> landings;
  for (std::size_t i = 0; i < kFamilies.size(); ++i) {
    const Tcp::endpoint at{net::ip::make_address(kFamilies[i].loopback), landing};
    landings[i].emplace(context);
    const boost::system::error_code failed = landings[i]->Open(at);
    if (!failed) continue;
    landings[i].reset();  // a pod may lack IPv6
    if (failed == net::error::address_in_use) {
      return std::unexpected(
          fmt::format("port {} is taken: this is for a pod in which Recourse "
                      "does not listen yet",
                      landing));
    }
  }
  // Each round lasts as long as its tries at least, and so does what is led nowhere.
  for (Millis waited{0}; waited < longest; waited += kTry) {
    for (std::size_t i = 0; i < kFamilies.size(); ++i) {
      const Tcp::endpoint beyond{net::ip::make_address(kFamilies[i].beyond), port};
      if (landings[i] && landings[i]->IsReachedBy(context, beyond)) return true;
    }
  }
  return false;
}

}  // namespace recourse
