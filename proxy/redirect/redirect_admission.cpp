#include "proxy/redirect/redirect_admission.h"

namespace recourse {

std::string_view NameOf(ArrivalRefusal refusal) {
  switch (refusal) {
    case ArrivalRefusal::kNone:
      return "accepted";
    case ArrivalRefusal::kDirect:
      return "direct";
    case ArrivalRefusal::kLoopback:
      return "loopback";
    case ArrivalRefusal::kOwnListener:
      return "own-listener";
    case ArrivalRefusal::kUnknownPeer:
      return "unknown-peer";
    case ArrivalRefusal::kOwnUser:
      return "own-user";
  }
  return "";
}

std::string_view AdviceOn(ArrivalRefusal refusal) {
  switch (refusal) {
    case ArrivalRefusal::kNone:
      return "";
    case ArrivalRefusal::kDirect:
      return "whoever knows of Recourse connects to --listen; this port is for what `recourse "
             "redirect install` redirects";
    case ArrivalRefusal::kLoopback:
    case ArrivalRefusal::kOwnListener:
      return "the rules must leave this pod's own addresses alone, as those of `recourse redirect "
             "install` do";
    case ArrivalRefusal::kUnknownPeer:
      return "the client has gone, or is in another network namespace";
    case ArrivalRefusal::kOwnUser:
      return "the rules redirect Recourse's own connections: give its user to `recourse redirect "
             "install --uid`, and let no agent have that user";
  }
  return "";
}

ArrivalRefusal JudgeArrival(const RedirectAdmission& arrival, const OwnListeners& own,
                            std::uint32_t own_user) {
  if (!arrival.original || *arrival.original == arrival.local) return ArrivalRefusal::kDirect;
  // The client is in this pod, so its own address is one of the pod's.
  if (own.Contains(*arrival.original, arrival.peer)) return ArrivalRefusal::kOwnListener;
  if (arrival.original->address().is_loopback()) return ArrivalRefusal::kLoopback;
  if (!arrival.owner) return ArrivalRefusal::kUnknownPeer;
  return *arrival.owner == own_user ? ArrivalRefusal::kOwnUser : ArrivalRefusal::kNone;
}

}  // namespace recourse
