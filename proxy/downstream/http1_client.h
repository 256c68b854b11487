// The client of a connection of HTTP/1.1, beside its requests.
#pragma once

#include <poll.h>

#include "proxy/downstream/http1_wire.h"
#include "proxy/exchange/client_side.h"
#include "proxy/exchange/request_body.h"
#include "proxy/exchange/served_request.h"

namespace recourse {

class Http1Client final : public ClientSide {
 public:
  // All outlive it.
  Http1Client(Http1Wire& wire, ServedRequest& request, RequestBody& body)
      : wire_(wire), request_(request), body_(body) {}

  State Look() override;
  Task<State> Await() override;
  void StopAwaiting() override { wire_.client.Cancel(); }
  Task<bool> HasTaken() override;
  void MarkAnswered(AttemptId answered) override;
  bool HasLeft() const override { return HasHungUp(POLLHUP | POLLERR); }
  bool MayHaveLeft() const override { return HasHungUp(POLLHUP | POLLERR | POLLRDHUP); }

  Task<std::optional<RawConnection>> Upgrade(const Head& head, std::uint64_t dropped,
                                             std::string_view protocol,
                                             std::span<char> room) override;
  Task<std::optional<RawConnection>> AcceptConnect() override;
  std::optional<RawConnection> TakeOver() override { return Raw(); }
  void EnterTunnel(Authority target) override;
  void Drains(Drainable* running) override { wire_.running = running; }

 private:
  bool HasHungUp(int how) const;
  RawConnection Raw() { return {wire_.client, wire_.in}; }

  Http1Wire& wire_;
  ServedRequest& request_;
  RequestBody& body_;
};

}  // namespace recourse
