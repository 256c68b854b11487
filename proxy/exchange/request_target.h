// Whom a request is for where its connection leads to somebody already: a tunnel's target, or the
// address that a redirected client wanted. Pure.
#pragma once

#include <string>

#include "proxy/exchange/ingress.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/message/protocol_detection.h"

namespace recourse {

// Of the connection, by what its client has said first, at the port that it connected to.
Authority RedirectedTarget(const Tcp::endpoint& original, const ProtocolDetection& first);

// The authority that a request names, at that port; empty: it cannot be read.
std::string RedirectedAuthority(const Tcp::endpoint& original, const Head& head);

// Why a request does not belong on its connection; empty: it does.
std::string WhyMisdirected(const Ingress& ingress, const Head& head);

}  // namespace recourse
