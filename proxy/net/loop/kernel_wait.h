// Where the io_context of a thread waits for the kernel. Asio calls epoll_wait for its own set; an
// I/O thread waits for the sockets of the data plane as well, by one call for both.
#pragma once

struct epoll_event;

namespace recourse {

class KernelWait {
 public:
  // In place of epoll_wait: it may return without an event, and `epoll` is the io_context's set.
  virtual int Wait(int epoll, epoll_event* events, int max, int timeout_ms) = 0;

 protected:
  ~KernelWait() = default;
};

// The io_context that the calling thread runs waits so from now on.
void WaitBy(KernelWait& wait);

// What Asio calls for epoll_wait (asio_impl.cpp).
int EpollWaitOfAsio(int epoll, epoll_event* events, int max, int timeout_ms);

}  // namespace recourse
