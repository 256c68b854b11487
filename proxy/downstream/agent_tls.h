// TLS of an agent that ends here: as --tls-cert, or as the backend that a tunnel leads to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/downstream/http1_wire.h"
#include "proxy/exchange/request_caller.h"

namespace recourse {

class AgentTls {
 public:
  // Both outlive it.
  AgentTls(Http1Wire& wire, RequestCaller& caller) : wire_(wire), caller_(caller) {}

  // The handshake of a connection whose client has begun to speak, until the deadline that is
  // armed, and who it is by that (tls_accept.cpp). False: it failed, which is counted and logged.
  Task<bool> Accept();
  // The same as a server of that host, after which the connection leads there (intercept.cpp).
  Task<bool> Intercept(Authority target);
  // A client's TLS to that host came to nothing. False.
  bool NoteInterception(const Authority& target, std::string_view result, std::string_view reason,
                        std::string_view advice);
  // A request has come, and the connection ends.
  void NoteRequest();
  void End();

 private:
  enum class HandshakeResult : std::uint8_t { kDone, kFailed, kSlow };
  Task<HandshakeResult> ShakeHands();
  Task<std::string_view> Handshake();
  void CountInterception(std::string_view result);

  Http1Wire& wire_;
  RequestCaller& caller_;
  std::optional<std::size_t> intercepted_at_;  // requests served before
};

}  // namespace recourse
