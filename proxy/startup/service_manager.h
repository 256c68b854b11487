// What systemd, or another service manager, is told of this process: the protocol of sd_notify(3).
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/clock.h"

namespace recourse {

// Sends `state`, such as "READY=1", to the socket that the manager named in NOTIFY_SOCKET: a path,
// or '@' and the name of an abstract socket. Empty: nobody wants to know. False when it could not
// be sent, which the log tells. "STOPPING=1" has the manager end what is left after a while: a
// process that an operator drains, and that stays, does not say it.
bool TellServiceManager(const std::string& socket, std::string_view state);

// The words that have the manager wait this much longer, from now on, for what it waits for.
std::string MoreTime(Millis time);

}  // namespace recourse
