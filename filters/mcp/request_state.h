// `requestState` of our own: what a client of the modern MCP is given while its call waits, and
// brings back when it makes the call again. Nothing is stored: it is signed. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/base/clock.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json.h"

namespace recourse {

// The call that a state is bound to.
struct StateScope {
  std::string caller, backend, tool;
  Digest arguments{};
};
StateScope ScopeOfState(std::string tool, const Json& arguments, std::string_view caller,
                        std::string_view backend);

struct RequestState {
  int round = 1;  // how often the client has been asked to come back
  std::int64_t expires_ms = 0;
  std::string trace_id;  // of the first leg, which the key is made with; empty: it brought none
};

std::string WriteRequestState(const std::string& secret, const StateScope& scope,
                              const RequestState& state);

// Whether it looks like ours; another one is the server's and goes on untouched.
bool IsOwnRequestState(std::string_view text);

// nullopt: forged, of another call or caller, or its time is over.
std::optional<RequestState> ReadRequestState(const std::string& secret, const StateScope& scope,
                                             std::string_view text, WallTime now);

// `body`, which is the request's, as its first leg was: without params.requestState, and with the
// first leg's trace where the client's library puts one into params._meta.
std::string WithoutRequestState(std::string body, std::string_view traceparent);

}  // namespace recourse
