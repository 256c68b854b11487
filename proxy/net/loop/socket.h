// TCP sockets before a connection takes them over.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace recourse {

using Tcp = boost::asio::ip::tcp;
using IoError = boost::system::error_code;

// A TCP socket that never blocks and that no program started by us inherits. Closed when destroyed.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  // Not connected yet; is_open() is false when the system gives none.
  static Socket For(const Tcp& protocol);
  // Has the address, and nobody can connect to it; throws boost::system::system_error.
  static Socket BoundTo(const Tcp::endpoint& endpoint);
  // Listens at once; throws boost::system::system_error.
  static Socket ListeningAt(const Tcp::endpoint& endpoint);

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Whether a call that would have opened a file failed with `error` as no more may be open.
inline bool AreFilesShort(int error) { return error == EMFILE || error == ENFILE; }

// What is written goes out at once, however small.
void SendAtOnce(int socket);

// Closing it, also by the end of the process, drops what the peer has not acknowledged, which then
// sees a reset; or the kernel goes on to send that, as it does unless told.
enum class AtClose : std::uint8_t { kSendsOn, kDrops };
void SetAtClose(int socket, AtClose what);
// The kernel ends the connection when the peer has acknowledged nothing for so long of what it was
// sent for a second time, or has left no room. It does so although the process is stopped.
void EndUnacknowledgedAfter(int socket, std::chrono::milliseconds most);
// Ends the connection as closing one that kDrops does.
void Reset(int socket);
struct Delivered {
  std::uint64_t acknowledged = 0;  // bytes, all in all
  std::size_t missing = 0;         // that the kernel has, and the peer has not acknowledged
  bool operator==(const Delivered&) const = default;
};
Delivered DeliveredBy(int socket);

// Both ends of a connected socket; none when it is not connected any more.
std::optional<Tcp::endpoint> LocalEnd(int socket);
std::optional<Tcp::endpoint> PeerEnd(int socket);

}  // namespace recourse
