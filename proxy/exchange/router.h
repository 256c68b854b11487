// Which lane a request takes, by its head and the policy.
#pragma once

#include "proxy/exchange/exchange.h"

namespace recourse {

// A request whose head has come, between Begin() and End() of it. True: the connection may serve
// another one.
Task<bool> ServeRequest(Exchange& exchange, const Lanes& lanes);

}  // namespace recourse
