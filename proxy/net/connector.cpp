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

Error NotSent(std::string_view detail) {
  return Error(ErrorCode::kNotSent, detail, Delivery::kNotSent);
}

}  // namespace

bool OwnListeners::Contains(const Tcp::endpoint& endpoint) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const Tcp::endpoint& own) {
    if (own.port() != endpoint.port()) return false;
    return own.address() == endpoint.address() ||
           (own.address().is_unspecified() && endpoint.address().is_loopback());
  });
}

Task<Result<std::unique_ptr<Connection>>> Connect(IoThread& thread, const Backend& backend,
                                                  const OwnListeners& own) {
  if (backend.scheme != "http") {
    co_return std::unexpected(NotSent("https backends are not supported by this version"));
  }
  const MonoTime deadline = thread.clock().Now() + backend.connect_timeout;
  const auto addresses = co_await thread.Resolve(backend.host);
  if (addresses.empty()) co_return std::unexpected(NotSent("the backend's name does not resolve"));
  std::string_view failure = "connection refused";
  for (const auto& address : addresses) {
    const Tcp::endpoint endpoint(address, backend.port);
    if (own.Contains(endpoint)) {
      co_return std::unexpected(
          Error(ErrorCode::kLoop, "the backend's address is one of Recourse's own listeners"));
    }
    if (thread.clock().Now() >= deadline) {
      failure = "connecting took longer than connect_timeout";
      break;
    }
    auto connection =
        std::make_unique<Connection>(TcpSocket(thread.context()), thread.wheel(), thread.frames());
    connection->deadline.Arm(deadline);
    if (co_await ConnectAwaiter{*connection, endpoint, &connection->write_memory}) {
      connection->deadline.Disarm();
      IoError ignored;
      connection->socket.set_option(Tcp::no_delay(true), ignored);
      co_return connection;
    }
    failure = connection->deadline.expired() ? "connecting took longer than connect_timeout"
              : connection->error == boost::asio::error::connection_refused
                  ? "connection refused"
                  : "the backend's address cannot be reached";
  }
  co_return std::unexpected(NotSent(failure));
}

}  // namespace recourse
