#include "proxy/net/io_thread.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>

#include "proxy/base/limits.h"
#include "proxy/base/log.h"

namespace recourse {
namespace {

constexpr int kJobsPerTurn = 4;

int OrThrow(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::system_category(), what);
  return fd;
}

int NewTimer(Millis every) {
  const int timer =
      OrThrow(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
  const timespec time{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(every).count()};
  const itimerspec times{.it_interval = time, .it_value = time};
  OrThrow(::timerfd_settime(timer, 0, &times, nullptr), "timerfd_settime");
  return timer;
}

std::vector<Job> Alone(Job job) {
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  return jobs;
}

}  // namespace

BufferPool::~BufferPool() {
  for (char* buffer : free_) delete[] buffer;
}

BufferPool::Buffer BufferPool::Take() {
  if (free_.empty()) return Buffer(new char[limits::kRelayBufferBytes], Return{this});
  char* buffer = free_.back();
  free_.pop_back();
  return Buffer(buffer, Return{this});
}

void BufferPool::Give(char* buffer) {
  if (free_.size() < kKept) {
    free_.push_back(buffer);
  } else {
    delete[] buffer;
  }
}

IoThread::IoThread(const Clock& clock)
    : clock_(clock),
      wheel_(clock.Now()),
      tick_(*this),
      bell_(poller_, OrThrow(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {
  // Without them nothing would end in time, or at all.
  OrThrow(tick_.timer.fd(), "epoll_ctl");
  OrThrow(bell_.fd(), "epoll_ctl");
}

IoThread::~IoThread() { Join(); }

void IoThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void IoThread::Stop() {
  stopped_ = true;
  Wake();
}

void IoThread::Join() {
  if (thread_.joinable()) thread_.join();
}

void IoThread::Run() {
  while (!stopped_) {
    RunPosted();
    poller_.Listen(MayWait() ? Poller::Wait::kYes : Poller::Wait::kNo);
    is_asleep_ = false;
    poller_.GoOn();
  }
}

// Says that it sleeps before it looks for jobs a last time, and whoever posts looks for that after
// the job is there: one of them sees the other.
bool IoThread::MayWait() {
  if (!posted_.empty() || poller_.has_queued()) return false;
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

// The tick runs while the thread lives: 20 cheap wake-ups a second, in exchange for no timer
// bookkeeping on the request path.
IoThread::Tick::Tick(IoThread& of)
    : Waiter(&Tick::Run), thread(of), timer(of.poller_, NewTimer(DeadlineWheel::kTick)) {
  timer.Park(*this, Ready::kRead);
}

void IoThread::Tick::Run(Waiter& self) {
  auto& tick = static_cast<Tick&>(self);
  std::uint64_t times = 0;
  (void)!::read(tick.timer.fd(), &times, sizeof times);
  tick.thread.wheel_.Advance(tick.thread.clock_.Now());
  tick.timer.Park(tick, Ready::kRead);
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

namespace {

using Addresses = std::vector<boost::asio::ip::address>;

// Blocks for as long as the system's resolver likes.
Addresses LookUp(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  Addresses addresses;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (addresses.size() == limits::kAddressesPerNameMax) break;
    Tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    addresses.push_back(endpoint.address());
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

// Somebody who waits for a look-up, which nothing can interrupt and which may outlive the waiting.
struct IoThread::Asker {
  explicit Asker(DeadlineWheel& wheel) : limit(wheel, &Asker::GiveUp, this) {}
  static void GiveUp(void* self) { static_cast<Asker*>(self)->found.Set({}); }

  Promise<Addresses> found;
  Deadline limit;
};

// Null when there is none and the system gives no thread.
IoThread::Helper* IoThread::LeastBusyHelper() {
  const auto least =
      std::min_element(helpers_.begin(), helpers_.end(),
                       [](const auto& a, const auto& b) { return a->at_work < b->at_work; });
  if (least != helpers_.end() &&
      ((*least)->at_work == 0 || helpers_.size() == limits::kLookupThreads)) {
    return least->get();
  }
  try {
    return helpers_.emplace_back(std::make_unique<Helper>()).get();
  } catch (const std::exception& error) {
    Log(LogLevel::kWarn, "cannot start a thread to look up names", {{"error", error.what()}});
    return helpers_.empty() ? nullptr : helpers_.front().get();
  }
}

void IoThread::StartLookup(const std::string& host) {
  Helper* const helper = LeastBusyHelper();
  if (helper == nullptr) {
    Post(Alone([this, host] { EndLookup(host, {}); }));
    return;
  }
  ++helper->at_work;
  boost::asio::post(helper->thread, [this, host, helper] {
    Post(Alone([this, host, helper, addresses = LookUp(host)]() mutable {
      --helper->at_work;
      EndLookup(host, std::move(addresses));
    }));
  });
}

void IoThread::EndLookup(const std::string& host, Addresses addresses) {
  if (names_.size() >= kNamesKept) names_.clear();
  const Millis ttl = addresses.empty() ? kFailedNameTtl : kNameTtl;
  names_[host] = Name{addresses, clock_.Now() + ttl};
  auto waiting = waiting_.extract(host);
  for (Asker* const asker : waiting.mapped()) asker->found.Set(addresses);
}

Task<Addresses> IoThread::Resolve(std::string host, MonoTime deadline) {
  IoError ec;
  const auto literal = boost::asio::ip::make_address(host, ec);
  if (!ec) co_return Addresses{literal};
  const MonoTime now = clock_.Now();
  if (const auto known = names_.find(host); known != names_.end() && known->second.expires > now) {
    co_return known->second.addresses;
  }
  Asker asker(wheel_);
  asker.limit.Arm(deadline);
  const auto [waiting, is_first] = waiting_.try_emplace(host);
  waiting->second.push_back(&asker);
  if (is_first) StartLookup(host);
  Addresses addresses = co_await asker.found.Wait();
  // Still there when the deadline came first.
  if (const auto still = waiting_.find(host); still != waiting_.end()) {
    std::erase(still->second, &asker);
  }
  co_return addresses;
}

}  // namespace recourse
