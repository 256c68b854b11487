// What becomes of a request, by its head, the policy and how it came. Pure: nothing is sent,
// counted or logged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/model/host_cache.h"
#include "policy/model/policy.h"
#include "proxy/base/error.h"
#include "proxy/exchange/ingress.h"
#include "proxy/exchange/route.h"
#include "proxy/net/http1/message_head.h"

namespace recourse {

struct Pick {
  enum class To : std::uint8_t {
    kRefuse,      // `code`, `detail` and `allow` say why
    kOptions,     // answered here: `allow`
    kPort,        // answered here: which port this is
    kConnect,     // a tunnel is asked for
    kRedirected,  // no backend is meant, but the authority in `detail`
    kPoll,        // what became of a call
    kObserve,
    kEndpoint,  // the body says what it is
    kRead,
    kWrite,
  };
  To to = To::kRefuse;
  ErrorCode code = ErrorCode::kInternal;
  bool lingers = false;          // what is left of the request is taken before the connection ends
  bool ends_connection = false;  // whatever the answer could do
  bool names_caller = false;     // who calls may be asked: it is no request that anybody may make
  bool would_refuse = false;     // observe mode: enforce would have
  bool host_differs = false;     // from an absolute target's authority, which wins
  bool is_unlisted = false;      // no tool of the policy matches
  const Backend* backend = nullptr;  // that is known to be meant
  const Tool* tool = nullptr;
  std::string detail, allow;
};

// All outlive the call. `via` is our pseudonym in Via.
struct Asked {
  const Head& head;
  const Ingress& ingress;
  const Policy& policy;
  HostCache& hosts;
  std::string_view via;
};

// Fills in `route` as far as it is looked for.
Pick PickLane(const Asked& asked, Route& route);

}  // namespace recourse
