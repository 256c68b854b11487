// CONNECT: a tunnel to a backend carries requests like any other; every other tunnel is blind, and
// there is one only where the policy's `tunnels` allow it.
#pragma once

#include "proxy/exchange/exchange.h"
#include "proxy/exchange/tunnel.h"

namespace recourse {

class ConnectLane final : public TunnelLane {
 public:
  Task<bool> Run(Exchange& exchange) override;
  Task<bool> RunBlind(Exchange& exchange, Authority target, TunnelDecision decision,
                      ConnectReplied replied) override;
  Task<bool> RunRedirected(Exchange& exchange, std::string authority) override;
  Task<void> RefuseTls(Exchange& exchange, std::string_view reason) override;

 private:
  static Task<bool> RefuseConnect(Exchange& exchange, ErrorCode code, std::string reason);
  static Task<bool> EnterTarget(Exchange& exchange, Authority target);
  // Why the other end of a blind tunnel must not be reached so; empty: it may be.
  static Task<std::string> WhyAlias(ServedRequest& request, const Authority& target,
                                    std::string peer, MonoTime deadline);
  static Tunnel::Verdict JudgeBlindOpening(ServedRequest& request, const Authority& target,
                                           std::string_view bytes);
};

}  // namespace recourse
