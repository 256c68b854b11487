#include "proxy/net/upstream/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "proxy/base/log/log.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr std::string_view kTooLong = "connecting took longer than connect_timeout";
constexpr std::string_view kNoFile =
    "the process may open no more files; raise the limit of open files";
constexpr std::string_view kUnreachable = "the backend's address cannot be reached";

std::string_view WhyNotConnected(int error) {
  return error == ECONNREFUSED ? "connection refused" : kUnreachable;
}

bool IsMappedTo(const boost::asio::ip::address& mapped, const boost::asio::ip::address& plain) {
  return mapped.is_v6() && mapped.to_v6().is_v4_mapped() && plain.is_v4() &&
         boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, mapped.to_v6()) ==
             plain.to_v4();
}

Error NotSent(std::string_view detail) {
  return Error(ErrorCode::kNotSent, detail, Delivery::kNotSent);
}

// `tried`: the address that could not be reached; none where the name leads to none.
Error Unreached(IoThread& thread, const Backend& backend, std::optional<Tcp::endpoint> tried,
                std::string_view why) {
  const auto failed = thread.LinesAbout(backend.name).Take(thread.clock().Now());
  if (failed) {
    const std::string address = backend.host + ":" + std::to_string(backend.port);
    const std::string ip = tried ? tried->address().to_string() : std::string();
    Log(LogLevel::kWarn, "a backend cannot be reached",
        {{"backend", backend.name},
         {"address", address},
         {"ip", ip},
         {"reason", why},
         {"failed_since_last_line", std::to_string(*failed)}});
  }
  return NotSent(why);
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

namespace {

struct Attempt {
  std::unique_ptr<Connection> connection;  // null: `failure` says why
  std::string_view failure;
};

// Looking up a name takes files, too, and who does it does not tell what it was short of.
bool IsNoFileLeft() {
  const Socket socket = Socket::For(Tcp::v4());
  return !socket.is_open() && AreFilesShort(errno);
}

Task<Attempt> ConnectTo(IoThread& thread, const Tcp::endpoint& endpoint, MonoTime limit) {
  Socket socket = Socket::For(endpoint.protocol());
  int error = socket.is_open() ? 0 : errno;
  if (AreFilesShort(error) && co_await thread.files().FreeAnywhere(limit)) {
    socket = Socket::For(endpoint.protocol());
    error = socket.is_open() ? 0 : errno;
  }
  if (error != 0) co_return Attempt{nullptr, AreFilesShort(error) ? kNoFile : kUnreachable};
  const auto size = static_cast<socklen_t>(endpoint.size());
  error = ::connect(socket.fd(), endpoint.data(), size) == 0 ? 0 : errno;
  if (error != 0 && error != EINPROGRESS) co_return Attempt{nullptr, WhyNotConnected(error)};
  // Not before: a socket that does not connect yet counts as one that has ended.
  auto connection =
      std::make_unique<Connection>(std::move(socket), thread.reactor(), thread.wheel());
  connection->deadline.Arm(limit);
  if (!co_await WaitForConnect(*connection)) {
    co_return Attempt{nullptr, connection->deadline.expired() ? kTooLong : kUnreachable};
  }
  socklen_t error_size = sizeof error;
  ::getsockopt(connection->socket(), SOL_SOCKET, SO_ERROR, &error, &error_size);
  if (error != 0) co_return Attempt{nullptr, WhyNotConnected(error)};
  SendAtOnce(connection->socket());
  connection->peer.Set(endpoint.address().to_string());
  connection->counted = OpenCount(thread.backend_connections());
  co_return Attempt{std::move(connection), {}};
}

IpAddress ToIpAddress(const boost::asio::ip::address& address) {
  const auto v6 = address.is_v6() ? address.to_v6()
                                  : boost::asio::ip::make_address_v6(boost::asio::ip::v4_mapped,
                                                                     address.to_v4());
  return {v6.to_bytes()};
}

std::string_view Refusal(AddressClass kind) {
  switch (kind) {
    case AddressClass::kLoopback:
      return "the backend's name leads to a loopback address; if that is meant, list loopback in "
             "its `addresses`";
    case AddressClass::kLinkLocal:
      return "the backend's name leads to a link-local address; if that is meant, list link_local "
             "in its `addresses`";
    case AddressClass::kMetadata:
      return "the backend's name leads to a cloud metadata address, where credentials are; find "
             "out who changed its DNS entry";
    case AddressClass::kPublic:
    case AddressClass::kPrivate:
      return "the backend's name leads to an address that its `addresses` do not list";
    default:
      return "the backend's name leads to an unspecified, multicast or reserved address";
  }
}

// Takes out the addresses that the backend may not have, and says what the first of them is. What
// is left is connected to as it stands: no second look-up comes between check and use.
std::optional<AddressClass> DropRefused(const Backend& backend,
                                        std::vector<boost::asio::ip::address>& addresses) {
  std::optional<AddressClass> refused;
  std::erase_if(addresses, [&](const boost::asio::ip::address& address) {
    const IpAddress ip = ToIpAddress(address);
    if (backend.addresses.Allow(ip)) return false;
    const AddressClass kind = ClassOf(ip);
    if (!refused) refused = kind;
    Log(LogLevel::kWarn, "a backend's address is refused",
        {{"backend", backend.name}, {"address", address.to_string()}, {"is", NameOf(kind)}});
    return true;
  });
  return refused;
}

Task<Result<void>> StartTls(IoThread& thread, const Backend& backend, Connection& connection) {
  if (backend.tls != nullptr) {  // null: its files cannot be used; never in the clear then
    connection.tls = backend.tls->NewStream(connection.socket(), thread.clock().WallNow());
  }
  if (connection.tls == nullptr) {
    co_return std::unexpected(
        Error(ErrorCode::kInternal,
              "the backend's TLS cannot be set up; the log says which file is at fault",
              Delivery::kNotSent));
  }
  for (;;) {
    const TlsStep step = connection.tls->Handshake();
    if (step.error) co_return std::unexpected(connection.tls->HandshakeError());
    if (step.want == TlsWant::kNothing) break;
    if (!co_await WaitForTls(connection, step.want)) {
      co_return std::unexpected(
          NotSent("the TLS handshake took longer than what connect_timeout left for it"));
    }
  }
  if (!TlsClient::SpeaksHttp11(*connection.tls)) {
    co_return std::unexpected(Error(ErrorCode::kTlsProtocol,
                                    "the backend chose a protocol that it was not offered",
                                    Delivery::kNotSent));
  }
  co_return Result<void>();
}

}  // namespace

Task<Result<std::unique_ptr<Connection>>> Connect(IoThread& thread, const Backend& backend,
                                                  const OwnListeners& own, MonoTime latest) {
  const MonoTime deadline = std::min(thread.clock().Now() + backend.connect_timeout, latest);
  auto addresses = co_await thread.names().Resolve(backend.host, deadline);
  if (addresses.empty() && IsNoFileLeft()) {
    if (!co_await thread.files().FreeAnywhere(deadline))
      co_return std::unexpected(NotSent(kNoFile));
    thread.names().Forget(backend.host);
    addresses = co_await thread.names().Resolve(backend.host, deadline);
  }
  MonoTime now = thread.clock().Now();
  if (addresses.empty()) {
    co_return std::unexpected(
        Unreached(thread, backend, std::nullopt,
                  now >= deadline ? "looking up the backend's name took longer than connect_timeout"
                                  : "the backend's name does not resolve"));
  }
  std::string_view failure = kTooLong;
  Tcp::endpoint tried;
  if (const auto refused = DropRefused(backend, addresses); addresses.empty()) {
    co_return std::unexpected(
        Error(ErrorCode::kAddressRefused, Refusal(*refused), Delivery::kNotSent));
  }
  auto left = static_cast<int>(addresses.size());
  for (auto address = addresses.begin(); address != addresses.end() && now < deadline;
       ++address, now = thread.clock().Now()) {
    // An address that never answers must leave time for those after it.
    const MonoTime limit = now + (deadline - now) / left--;
    const Tcp::endpoint endpoint(*address, backend.port);
    Attempt attempt = co_await ConnectTo(thread, endpoint, limit);
    failure = attempt.failure;
    tried = endpoint;
    if (attempt.connection == nullptr) continue;
    Connection& connection = *attempt.connection;
    if (own.Contains(endpoint, LocalEnd(connection.socket()).value_or(Tcp::endpoint()))) {
      co_return std::unexpected(Error(ErrorCode::kLoop,
                                      "the backend's address is one of Recourse's own listeners",
                                      Delivery::kNotSent));
    }
    connection.deadline.Arm(deadline);
    if (backend.scheme == "https") {
      auto secured = co_await StartTls(thread, backend, connection);
      if (!secured) co_return std::unexpected(secured.error());
    }
    connection.deadline.Disarm();
    co_return std::move(attempt.connection);
  }
  co_return std::unexpected(Unreached(thread, backend, tried, failure));
}

}  // namespace recourse
