#include "proxy/net/loop/kernel_wait.h"

#include <sys/epoll.h>

namespace recourse {
namespace {

constinit thread_local KernelWait* wait_of_thread = nullptr;

}  // namespace

void WaitBy(KernelWait& wait) { wait_of_thread = &wait; }

int EpollWaitOfAsio(int epoll, epoll_event* events, int max, int timeout_ms) {
  if (wait_of_thread == nullptr) return ::epoll_wait(epoll, events, max, timeout_ms);
  return wait_of_thread->Wait(epoll, events, max, timeout_ms);
}

}  // namespace recourse
