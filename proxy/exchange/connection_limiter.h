// Who may connect: bounds the connections of the process and of one peer.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "proxy/net/loop/connection.h"

namespace recourse {

// Thread-safe; one lock per connection, none per request.
class ConnectionLimiter {
 public:
  using Address = boost::asio::ip::address;

  // One of the places; given back when destroyed.
  class Place {
   public:
    Place(Place&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), peer_(other.peer_) {}
    Place& operator=(Place&&) = delete;
    ~Place() { GiveBack(); }

    // Before the end, for somebody who comes next.
    void GiveBack();
    bool IsOf(const Address& peer) const { return KeyOf(peer) == peer_; }
    std::uint64_t peer() const { return peer_; }  // equal for those who share its bound

   private:
    friend class ConnectionLimiter;
    Place(ConnectionLimiter& gate, std::uint64_t peer) : gate_(&gate), peer_(peer) {}

    ConnectionLimiter* gate_;
    std::uint64_t peer_;
  };
  // Why there is no room; the texts are labels of a metric.
  enum class Full : std::uint8_t { kProcess, kPeer };

  ConnectionLimiter(std::size_t most, std::size_t most_of_peer)
      : most_(most), most_of_peer_(most_of_peer) {}

  // The gate outlives the place.
  std::expected<Place, Full> Enter(const Address& peer);

 private:
  // Who has one address of an IPv6 network has 2^64 of them: the /64 is the peer.
  static std::uint64_t KeyOf(const Address& peer);

  const std::size_t most_, most_of_peer_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t taken_ = 0;
  std::map<std::uint64_t, std::size_t> by_peer_;
};

// Tells a client that there is no room, as far as its socket takes that at once: who floods us gets
// neither a buffer nor a wait.
void TurnAway(int socket, ConnectionLimiter::Full reason);

}  // namespace recourse
