#include "proxy/net/loop/reactor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "proxy/base/check.h"

namespace recourse {
namespace {

constexpr std::size_t kEventsPerTurn = 256;
constexpr std::uint32_t kWatched = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
constexpr std::uint32_t kFailed = EPOLLHUP | EPOLLERR;
constexpr std::uint32_t kReadsToEnd = EPOLLRDHUP | EPOLLPRI | kFailed;

}  // namespace

Descriptor::Descriptor(Reactor& reactor, int fd) : reactor_(reactor), fd_(fd) {
  epoll_event event{};
  event.events = kWatched;
  event.data.ptr = this;
  if (fd >= 0 && ::epoll_ctl(reactor_.epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    ::close(std::exchange(fd_, -1));
    errno = error;
  }
}

bool Descriptor::IsReady(Ready what) {
  pollfd asked{fd_, static_cast<short>(what == Ready::kRead ? POLLIN | POLLRDHUP : POLLOUT), 0};
  if (::poll(&asked, 1, 0) != 0) return true;
  if (what == Ready::kRead) may_read_ = false;
  return false;
}

void Descriptor::Park(PendingOp& waiter, Ready what) {
  (what == Ready::kRead ? readers_ : writers_).Push(waiter);
}

void Descriptor::Wake() {
  reactor_.queue_.Append(readers_);
  reactor_.queue_.Append(writers_);
}

void Descriptor::Cancel() {
  ++cancels_;
  Wake();
}

void Descriptor::Close() {
  Cancel();
  if (fd_ < 0) return;
  // By name, as a process that was forked meanwhile may hold it open, and events would go on.
  ::epoll_ctl(reactor_.epoll_, EPOLL_CTL_DEL, fd_, nullptr);
  ::close(std::exchange(fd_, -1));
}

// Only notes what is to be done. Nobody goes on before all events of the turn were taken, so none
// can be about a descriptor that is gone.
void Descriptor::Take(std::uint32_t events) {
  if ((events & (EPOLLIN | kReadsToEnd)) != 0) {
    may_read_ = true;
    reads_to_end_ = reads_to_end_ || (events & kReadsToEnd) != 0;
    reactor_.queue_.Append(readers_);
  }
  if ((events & (EPOLLOUT | kFailed)) != 0) reactor_.queue_.Append(writers_);
}

Reactor::Reactor() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw std::system_error(errno, std::system_category(), "epoll_create1");
}

Reactor::~Reactor() { ::close(epoll_); }

void Reactor::Nest(int epoll) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  RC_CHECK(::epoll_ctl(epoll_, EPOLL_CTL_ADD, epoll, &event) == 0);
}

bool Reactor::Poll(int timeout_ms) {
  std::array<epoll_event, kEventsPerTurn> events;
  const int count =
      ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  bool is_nested_ready = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    auto* const descriptor = static_cast<Descriptor*>(event.data.ptr);
    if (descriptor == nullptr) {
      is_nested_ready = true;
    } else {
      descriptor->Take(event.events);
    }
  }
  return is_nested_ready;
}

// Who is queued from now on has the next turn.
void Reactor::RunReady() {
  PendingQueue present;
  present.Append(queue_);
  while (PendingOp* const waiter = present.Pop()) {
    waiter->go_(*waiter);
    if (last_count_ >= kTogetherMax) GoTogether();
  }
  GoTogether();
}

// Once to send, and once more for who goes on from there when all have sent.
void Reactor::GoTogether() {
  for (int round = 0; round < 2; ++round) {
    PendingQueue present;
    present.Append(last_);
    last_count_ = 0;
    while (PendingOp* const waiter = present.Pop()) waiter->go_(*waiter);
  }
}

}  // namespace recourse
