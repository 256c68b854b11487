#include "proxy/startup/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "proxy/base/log/log.h"

namespace recourse {
namespace {

bool Send(const std::string& name, std::string_view state) {
  sockaddr_un address = {};
  if (name.size() >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return false;
  }
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, name.size());
  if (name.front() == '@') address.sun_path[0] = '\0';
  const int file = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return false;
  // The length counts: an abstract name ends where the address does.
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const ssize_t sent = ::sendto(file, state.data(), state.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), size);
  const int reason = errno;
  ::close(file);
  errno = reason;
  return sent == static_cast<ssize_t>(state.size());
}

}  // namespace

bool TellServiceManager(const std::string& socket, std::string_view state) {
  if (socket.empty() || Send(socket, state)) return true;
  Log(LogLevel::kWarn, "the service manager could not be told",
      {{"NOTIFY_SOCKET", socket}, {"state", state}, {"reason", std::strerror(errno)}});
  return false;
}

std::string MoreTime(Millis time) {
  return fmt::format("EXTEND_TIMEOUT_USEC={}", std::chrono::microseconds(time).count());
}

}  // namespace recourse
