// One agent's connection of HTTP/1.1: reads heads, and has each request answered in order.
#pragma once

#include <cstdint>
#include <optional>

#include "proxy/downstream/agent_tls.h"
#include "proxy/downstream/http1_body.h"
#include "proxy/downstream/http1_client.h"
#include "proxy/downstream/http1_reply.h"
#include "proxy/downstream/http1_wire.h"
#include "proxy/exchange/connection_limiter.h"
#include "proxy/exchange/exchange.h"
#include "proxy/exchange/idle_connections.h"

namespace recourse {

class Http1Connection final : IdleConnection {
 public:
  // `original` is where the client of a redirected connection wanted to.
  Http1Connection(Worker& worker, const Lanes& lanes, Socket socket, ConnectionLimiter::Place place,
                  std::optional<Tcp::endpoint> original);

  // Serves requests until either side closes or a bound is reached.
  Task<void> Run();
  // Ends it if it waits for its next request; else it ends after the one at work.
  void Drain();

 private:
  bool IsOf(const ConnectionLimiter::Address& peer) const override { return place_.IsOf(peer); }
  bool MakeRoom() override;
  Task<bool> IsSpokenTo();
  Task<bool> ReadHead();
  // An idle connection holds no buffer.
  bool BeginIdle();
  bool EndIdle(std::size_t size);
  Task<bool> ReadMoreHead();
  Task<void> RefuseHead(const Error& error);
  // What the client says first in a tunnel to a backend, or where it was redirected.
  enum class TunnelOpening : std::uint8_t { kNeedMore, kRequest, kOver };
  Task<TunnelOpening> MeetOpening();
  // Lets the client read the last answer before the connection goes: a reset would take it away.
  Task<void> Linger();

  Worker& worker_;
  Services& services_;
  const Lanes& lanes_;
  ConnectionLimiter::Place place_;
  Http1Wire wire_;
  ServedRequest request_;
  Http1Reply reply_;
  Http1Body body_;
  Http1Client client_;
  Exchange exchange_;
  AgentTls tls_;
  bool is_idle_ = false;
  bool is_leaving_ = false;  // its place is somebody else's already
};

}  // namespace recourse
