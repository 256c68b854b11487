// Who may come in by the redirect listener. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/net/loop/connection.h"
#include "proxy/net/upstream/connector.h"

namespace recourse {

// What the kernel says of a connection that the redirect listener has accepted.
struct RedirectAdmission {
  Tcp::endpoint local, peer;
  std::optional<Tcp::endpoint> original;  // where the client wanted to
  std::optional<std::uint32_t> owner;     // of the client's socket
};

// Why it is closed at once; the names are labels of a metric.
enum class ArrivalRefusal : std::uint8_t {
  kNone,
  kDirect,       // nothing redirected it: whoever comes by himself uses --listen
  kLoopback,     // it was meant for this pod itself
  kOwnListener,  // it was meant for a listener of ours
  kUnknownPeer,  // its client is in no socket of this pod, or gone
  kOwnUser,      // Recourse's own: the rules do not exclude its user, and it would go in circles
};
std::string_view NameOf(ArrivalRefusal refusal);
// What an operator should do about it; static.
std::string_view AdviceOn(ArrivalRefusal refusal);

ArrivalRefusal JudgeArrival(const RedirectAdmission& arrival, const OwnListeners& own,
                            std::uint32_t own_user);

}  // namespace recourse
