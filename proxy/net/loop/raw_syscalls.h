// recv and send as the kernel has them. In the library they are points where a thread may be
// canceled: two locked instructions and sixty others for each call, and nobody cancels a thread
// here. Errors are in errno, as ever.
#pragma once

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace recourse {

// Sanitizers see what goes through the library.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)

inline ssize_t KernelRecv(int socket, void* to, std::size_t size, int flags) {
  return ::recv(socket, to, size, flags);
}
inline ssize_t KernelSend(int socket, const void* from, std::size_t size, int flags) {
  return ::send(socket, from, size, flags);
}

#else

inline ssize_t KernelRecv(int socket, void* to, std::size_t size, int flags) {
  return ::syscall(SYS_recvfrom, socket, to, size, flags, nullptr, nullptr);
}
inline ssize_t KernelSend(int socket, const void* from, std::size_t size, int flags) {
  return ::syscall(SYS_sendto, socket, from, size, flags, nullptr, 0);
}

#endif

}  // namespace recourse
