#include "proxy/net/loop/io_thread.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "proxy/base/check.h"
#include "proxy/base/frame_arena.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr int kJobsPerTurn = 4;

int FdOrThrow(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::system_category(), what);
  return fd;
}

constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

int NewTimer() {
  return FdOrThrow(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
}

}  // namespace

IoThread::IoThread(const Clock& clock, int speed)
    : clock_(clock),
      speed_(speed),
      wheel_(clock.Now()),
      files_(*this, wheel_),
      upkeep_(wheel_, clock),
      buffers_(upkeep_),
      tick_(*this),
      bell_(reactor_, FdOrThrow(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")),
      names_(*this, wheel_, clock) {
  // Without them nothing would end in time, or at all.
  FdOrThrow(tick_.timer.fd(), "epoll_ctl");
  FdOrThrow(bell_.fd(), "epoll_ctl");
  wheel_.OnLook([](void* self, MonoTime when) { static_cast<IoThread*>(self)->LookAt(when); },
                this);
  upkeep_.Add([this] { return TrimBuffers(); });
  upkeep_.Add([this] { return heads_.Trim(); });
}

IoThread::~IoThread() { Join(); }

void IoThread::Start(const std::string& name) {
  thread_ = std::thread([this, name] {
    NameThread(name);
    Run();
  });
}

void IoThread::Stop() {
  stopped_ = true;
  Wake();
}

void IoThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void IoThread::Run() {
  FrameArena frames;
  MonoTime woke = clock_.Now();
  while (!stopped_) {
    RunPosted();
    const bool may_wait = MayWait();
    const MonoTime ended = clock_.Now();
    if (told_turn_) told_turn_(ended - woke);
    reactor_.Listen(may_wait ? Reactor::Wait::kYes : Reactor::Wait::kNo);
    woke = may_wait ? clock_.Now() : ended;
    is_asleep_ = false;
    reactor_.GoOn();
  }
}

// Says that it sleeps before it looks for jobs a last time, and whoever posts looks for that after
// the job is there: one of them sees the other.
bool IoThread::MayWait() {
  if (!posted_.empty() || reactor_.has_queued()) return false;
  is_asleep_ = true;
  return !has_incoming_ && !stopped_;
}

void IoThread::Wake() {
  if (!is_asleep_.exchange(false)) return;
  constexpr std::uint64_t kOnce = 1;
  (void)!::write(bell_.fd(), &kOnce, sizeof kOnce);
}

void IoThread::Post(std::vector<Job> jobs) {
  {
    const std::lock_guard lock(mutex_);
    std::move(jobs.begin(), jobs.end(), std::back_inserter(incoming_));
  }
  has_incoming_ = true;
  Wake();
}

// A commit of the ledger wakes as many writes as were in its batch. Sockets get their turn between
// a few of them, or a read would wait for all.
void IoThread::RunPosted() {
  if (has_incoming_) {
    has_incoming_ = false;
    const std::lock_guard lock(mutex_);
    std::move(incoming_.begin(), incoming_.end(), std::back_inserter(posted_));
    incoming_.clear();
  }
  for (int i = 0; i < kJobsPerTurn && !posted_.empty(); ++i) {
    Job job = std::move(posted_.front());
    posted_.pop_front();
    job();
  }
}

IoThread::Tick::Tick(IoThread& of)
    : Waiter(&Tick::Run), thread(of), timer(of.reactor_, NewTimer()) {
  timer.Park(*this, Ready::kRead);
}

void IoThread::Tick::Run(Waiter& self) {
  auto& tick = static_cast<Tick&>(self);
  std::uint64_t times = 0;
  (void)!::read(tick.timer.fd(), &times, sizeof times);
  tick.thread.wheel_.Advance(tick.thread.clock_.Now());
  tick.timer.Park(tick, Ready::kRead);
}

// Few of the deadlines that requests arm are sooner than the one that is waited for already.
void IoThread::LookAt(MonoTime when) {
  const auto left = (when - clock_.Now()) / speed_;
  const auto nanos = std::max<std::int64_t>(std::chrono::nanoseconds(left).count(), 1);
  const itimerspec once{
      .it_interval = {},
      .it_value = {.tv_sec = nanos / kNanosPerSecond, .tv_nsec = nanos % kNanosPerSecond}};
  RC_CHECK(::timerfd_settime(tick_.timer.fd(), 0, &once, nullptr) == 0);
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
