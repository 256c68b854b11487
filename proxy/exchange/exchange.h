// One request and its answer, whatever carried it, and the lanes that make the one from the other.
//
// A carrier (HTTP/1.1 today) implements body, reply and client, and hands each request to
// ServeRequest(). A lane knows of the connection only by these: one that has many requests at work
// is another carrier.
#pragma once

#include <array>
#include <string>

#include "policy/model/tunnel_decision.h"
#include "proxy/exchange/client_side.h"
#include "proxy/exchange/reply.h"
#include "proxy/exchange/request_body.h"
#include "proxy/exchange/served_request.h"

namespace recourse {

struct Exchange {
  ServedRequest& request;
  RequestBody& body;
  Reply& reply;
  ClientSide& client;
};

// Makes the answer. True: the connection may serve another request.
class Lane {
 public:
  virtual ~Lane() = default;
  virtual Task<bool> Run(Exchange& exchange) = 0;
};

// CONNECT, and who was redirected or is in a tunnel and speaks something else than HTTP.
class TunnelLane : public Lane {
 public:
  // Whether the client has heard already that there is a tunnel.
  enum class ConnectReplied : std::uint8_t { kNo, kYes };
  virtual Task<bool> RunBlind(Exchange& exchange, Authority target, TunnelDecision decision,
                              ConnectReplied replied) = 0;
  // A redirected request that no backend is meant by.
  virtual Task<bool> RunRedirected(Exchange& exchange, std::string authority) = 0;
  // What says no to TLS, which cannot say why.
  virtual Task<void> RefuseTls(Exchange& exchange, std::string_view reason) = 0;
};

// The endpoint of servers of one protocol, where the body says what a call is.
class EndpointLane : public Lane {
 public:
  // Observe mode: whether what has that head may be a call; else it only asks.
  virtual bool MayBeCall(const Head& head, std::string_view query) const = 0;
  // Observe mode: a call is seen for `recourse policy suggest`, where that learns of them.
  virtual void Tap(ServedRequest& request) const { (void)request; }
  // Observe mode: the body of what is observed has passed, or there is none. Finds out whether it
  // asks for a read, and of which tool it is a call.
  virtual Task<void> JudgeObserved(ServedRequest& request) = 0;
};

struct EndpointLanes {
  EndpointLane& Of(const Backend& backend) const {
    return *by_protocol.at(static_cast<std::size_t>(backend.protocol));
  }
  std::array<EndpointLane*, 3> by_protocol;  // in the order of Protocol; plain HTTP has none
};

// Of one I/O thread. A write is never canceled because its client went away: a lane goes on until
// the outcome is recorded.
struct Lanes {
  Lane& read;
  Lane& write;
  const EndpointLanes& endpoints;
  Lane& observe;
  Lane& poll;
  TunnelLane& tunnel;
};

// Answers with a problem of ours; `allow` is what a 405 names. False when the connection must
// close.
Task<bool> Refuse(Exchange& exchange, ErrorCode code, std::string detail, std::string allow = {});
Task<bool> ReplyOptions(Exchange& exchange, std::string allow);
// An answer of ours where nobody has read the body. `understood`: it is known where that ends.
Task<bool> ReplyHere(Exchange& exchange, const HttpResponse& response, bool understood);

}  // namespace recourse
