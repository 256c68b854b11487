// A tunnel at work, whatever it was made by.
#pragma once

#include "proxy/exchange/exchange.h"
#include "proxy/exchange/tunnel.h"

namespace recourse {

// Until both sides end, or the process stops. Counted.
Task<void> RunTunnel(Exchange& exchange, Tunnel& tunnel);

}  // namespace recourse
