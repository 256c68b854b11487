#include "proxy/net/connector.h"

#include <algorithm>

namespace recourse {
namespace {

struct ConnectAwaiter {
  Connection& connection;
  Tcp::endpoint endpoint;
  OperationMemory* memory;
  std::coroutine_handle<> handle{};

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    handle = awaiting;
    connection.socket.async_connect(endpoint, detail::ResumeHandler<ConnectAwaiter>{this});
  }
  void Done(IoError ec, std::size_t) {
    connection.error = ec;
    handle.resume();
  }
  bool await_resume() const { return !connection.error; }
};

constexpr std::string_view kTooLong = "connecting took longer than connect_timeout";

bool IsMappedTo(const boost::asio::ip::address& mapped, const boost::asio::ip::address& plain) {
  return mapped.is_v6() && mapped.to_v6().is_v4_mapped() && plain.is_v4() &&
         boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, mapped.to_v6()) ==
             plain.to_v4();
}

Error NotSent(std::string_view detail) {
  return Error(ErrorCode::kNotSent, detail, Delivery::kNotSent);
}

}  // namespace

bool OwnListeners::Contains(const Tcp::endpoint& endpoint, const Tcp::endpoint& local) const {
  const bool same_host = endpoint.address() == local.address() || endpoint.address().is_loopback();
  return same_host &&
         std::any_of(endpoints_.begin(), endpoints_.end(), [&](const Tcp::endpoint& own) {
           return own.port() == endpoint.port() &&
                  (own.address() == endpoint.address() || own.address().is_unspecified() ||
                   IsMappedTo(endpoint.address(), own.address()));
         });
}

Task<Result<std::unique_ptr<Connection>>> Connect(IoThread& thread, const Backend& backend,
                                                  const OwnListeners& own) {
  if (backend.scheme != "http") {
    co_return std::unexpected(Error(ErrorCode::kNotImplemented,
                                    "https backends are not supported by this version",
                                    Delivery::kNotSent));
  }
  const MonoTime deadline = thread.clock().Now() + backend.connect_timeout;
  const auto addresses = co_await thread.Resolve(backend.host, deadline);
  if (addresses.empty()) co_return std::unexpected(NotSent("the backend's name does not resolve"));
  std::string_view failure = kTooLong;
  for (const auto& address : addresses) {
    if (thread.clock().Now() >= deadline) break;
    const Tcp::endpoint endpoint(address, backend.port);
    auto connection =
        std::make_unique<Connection>(TcpSocket(thread.context()), thread.wheel(), thread.frames());
    connection->deadline.Arm(deadline);
    if (co_await ConnectAwaiter{*connection, endpoint, &connection->write_memory}) {
      IoError ignored;
      if (own.Contains(endpoint, connection->socket.local_endpoint(ignored))) {
        co_return std::unexpected(Error(ErrorCode::kLoop,
                                        "the backend's address is one of Recourse's own listeners",
                                        Delivery::kNotSent));
      }
      connection->deadline.Disarm();
      connection->socket.set_option(Tcp::no_delay(true), ignored);
      co_return connection;
    }
    failure = connection->deadline.expired() ? kTooLong
              : connection->error == boost::asio::error::connection_refused
                  ? "connection refused"
                  : "the backend's address cannot be reached";
  }
  co_return std::unexpected(NotSent(failure));
}

}  // namespace recourse
