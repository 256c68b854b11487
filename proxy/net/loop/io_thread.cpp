#include "proxy/net/loop/io_thread.h"

#include <sys/epoll.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace recourse {

// Moves the deadlines on when their wheel asks for it.
struct IoThread::Tick {
  explicit Tick(boost::asio::io_context& context) : timer(context) {}
  boost::asio::steady_timer timer;
};

IoThread::IoThread(const Clock& clock, int speed)
    : clock_(clock),
      speed_(speed),
      wheel_(clock.Now()),
      files_(*this, wheel_),
      upkeep_(wheel_, clock),
      buffers_(upkeep_),
      woke_(clock.Now()),
      tick_(std::make_unique<Tick>(loop_.context())),
      names_(*this, wheel_, clock) {
  wheel_.OnLook([](void* self, MonoTime when) { static_cast<IoThread*>(self)->LookAt(when); },
                this);
  upkeep_.Add([this] { return TrimBuffers(); });
  upkeep_.Add([this] { return heads_.Trim(); });
}

IoThread::~IoThread() { Join(); }

void IoThread::Start(const std::string& name) {
  loop_.Start(name, [this] {
    woke_ = clock_.Now();
    WaitBy(*this);
  });
}

// The sockets of the data plane have one turn, and the context its own: who has more to do makes
// the next wait a short one, so that neither keeps the other from going on.
int IoThread::Wait(int epoll, epoll_event* events, int max, int timeout_ms) {
  if (!is_nested_) {
    reactor_.Nest(epoll);
    is_nested_ = true;
  }
  const bool may_wait = timeout_ms != 0 && !reactor_.has_queued();
  const MonoTime ended = clock_.Now();
  if (told_turn_) told_turn_(ended - woke_);
  const bool has_asio_news = reactor_.Poll(may_wait ? timeout_ms : 0);
  woke_ = may_wait ? clock_.Now() : ended;
  reactor_.RunReady();
  return has_asio_news ? ::epoll_wait(epoll, events, max, 0) : 0;
}

// Few of the deadlines that requests arm are sooner than the one that is waited for already.
void IoThread::LookAt(MonoTime when) {
  const auto left = std::max(when - clock_.Now(), MonoTime::duration::zero());
  tick_->timer.expires_after(left / speed_);
  tick_->timer.async_wait([this](const boost::system::error_code& error) {
    if (!error) wheel_.Advance(clock_.Now());
  });
}

// Buffers that nobody needs any more show that a crowd has gone.
bool IoThread::TrimBuffers() {
  const std::size_t before = buffers_.kept();
  const bool has_more = buffers_.Trim();
  if (has_more && buffers_.kept() == before) return true;
  return heap_.Look(clock_.Now()) || has_more;
}

Task<void> IoThread::SleepUntil(MonoTime when) {
  struct Awaiter {
    DeadlineWheel& wheel;
    MonoTime when;
    std::coroutine_handle<> handle{};
    Deadline deadline{wheel, [](void* self) { static_cast<Awaiter*>(self)->handle.resume(); },
                      this};
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> awaiting) {
      handle = awaiting;
      deadline.Arm(when);
    }
    void await_resume() {}
  };
  co_await Awaiter{wheel_, when};
}

}  // namespace recourse
